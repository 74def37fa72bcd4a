"""Heads that an engine cannot compute on a CPU are refused before anything starts."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from configs.checks.engines import ENGINES_ARE_V1
from configs.errors import ConfigError
from configs.loading.loader import load_config
from configs.schema import Config
from pipeline.machine import hardware
from pipeline.preflight.model_folder import CPU_HEAD_SIZES, check_head_size


def config(*overrides: str) -> Config:
    return load_config(None, ["model.path=m", "train.total_steps=10", "train.batch_size=8", *overrides])


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(hardware, "num_gpus", lambda: request.param)


@pytest.mark.parametrize("gpus", [0], indirect=True)
@pytest.mark.parametrize(
    ("model", "size"),
    [
        ({"head_dim": 16, "hidden_size": 512, "num_attention_heads": 8}, 16),
        ({"hidden_size": 128, "num_attention_heads": 8}, 16),
        ({"text_config": {"hidden_size": 2560, "num_attention_heads": 64}}, 40),
    ],
)
def test_a_size_without_a_kernel(gpus: None, model: dict, size: int) -> None:
    with pytest.raises(ConfigError, match=rf"^model.path=m has attention heads of size {size}.*32, 64, 80.*; choose"):
        check_head_size(config(), model)


@pytest.mark.parametrize("gpus", [0], indirect=True)
def test_supported_unknown_and_latent_heads_pass(gpus: None) -> None:
    for model in (
        {"hidden_size": 576, "num_attention_heads": 9},
        {"head_dim": None, "hidden_size": 128, "num_attention_heads": 4},
        {},
        {"kv_lora_rank": 512, "hidden_size": 160, "num_attention_heads": 10},
    ):
        check_head_size(config(), model)


@pytest.mark.parametrize("gpus", [1], indirect=True)
def test_a_gpu_has_its_own_kernels(gpus: None) -> None:
    small = {"hidden_size": 128, "num_attention_heads": 8}
    check_head_size(config(), small)
    with pytest.raises(ConfigError, match="heads of size 16"):
        check_head_size(config("scheduler.device=cpu"), small)


@pytest.mark.parametrize("gpus", [0], indirect=True)
def test_each_engine_has_its_own_sizes(gpus: None) -> None:
    wide = {"head_dim": 512}
    check_head_size(config(), wide)
    with pytest.raises(ConfigError, match=r"vllm-0\.18\.1-v1 cannot compute"):
        check_head_size(config("rollout.engine=vllm-0.18.1-v1"), wide)
    assert set(CPU_HEAD_SIZES) == set(ENGINES_ARE_V1)


def test_the_sizes_are_those_of_the_installed_engine() -> None:
    """Read from its source: to import it takes many seconds."""
    engine = find_spec("vllm")
    if engine is None or engine.origin is None:
        pytest.skip("vLLM is not installed here")
    backend = Path(engine.origin).parent / "v1" / "attention" / "backends" / "cpu_attn.py"
    told = re.search(r"def get_supported_head_sizes\(.*?return (\[[^\]]*\])", backend.read_text(), re.DOTALL)
    assert told is not None and tuple(json.loads(told[1])) == CPU_HEAD_SIZES["vllm-v1"]


@pytest.mark.parametrize("gpus", [0], indirect=True)
def test_the_command_refuses_a_folder_with_such_a_model(gpus: None, tmp_path: Path) -> None:
    from pipeline.preflight.model_folder import check_model_folder

    values = {"max_position_embeddings": 2048, "hidden_size": 128, "num_attention_heads": 8}
    (tmp_path / "config.json").write_text(json.dumps(values))
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ConfigError, match="heads of size 16"):
        check_model_folder(config(f"model.path={tmp_path}"))
