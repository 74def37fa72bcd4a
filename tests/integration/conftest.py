"""One engine for the whole session: starting one takes longer than all that is tested on it."""

import asyncio
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.schema import Config
from tests.integration.tiny_model import make_tiny_model

SHARED_MEMORY = Path("/dev/shm")


class EngineSession:
    """The shared engine, the event loop it lives in, and the folder updates are published to."""

    def __init__(self, runner: asyncio.Runner, engine: Any, model_folder: Path, publish_folder: Path) -> None:
        self._runner = runner
        self.engine = engine
        self.model_folder = model_folder
        self.publish_folder = publish_folder

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(coroutine)

    def next_version(self) -> int:
        self._last = getattr(self, "_last", 0) + 1
        return self._last

    def forgive(self) -> None:
        """Make the engine usable after an injected fault; the next update replaces every weight."""
        self.engine.failure = None


def tiny_config(model_folder: Path) -> Config:
    config = Config()
    config.model.path, config.model.dtype = str(model_folder), "float32"
    config.train.total_steps = config.train.batch_size = 1
    config.rollout.max_concurrent_rollouts, config.rollout.sampling.n_samples = 8, 8
    config.rollout.sampling.max_new_tokens = 400
    config.rollout.weight_sync.timeout_s = 60
    config.dataset.max_prompt_tokens = 64
    return config


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("tiny-model"))


@pytest.fixture(scope="session")
def engine_session(tiny_model: Path) -> Iterator[EngineSession]:
    from rollout.engines.v1_current import arguments as vllm_args
    from rollout.engines.v1_current.adapter import VllmV1Engine

    patch = pytest.MonkeyPatch()
    patch.setattr(vllm_args, "WORKER_EXTENSION", "tests.integration.faulty_weight_worker.FaultyWeightWorker")
    base = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="proxrl-test-", dir=base) as published, asyncio.Runner() as runner:
        engine = VllmV1Engine(tiny_config(tiny_model), worker=0, first_version=0)
        runner.run(engine.start())
        try:
            yield EngineSession(runner, engine, tiny_model, Path(published))
        finally:
            runner.run(engine.close())
            patch.undo()
