"""One examination: start the job's two halves, climb the ladder, collect what the page shows."""

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.schema import Config
from pipeline.doctor.bench import Bench
from pipeline.doctor.figures import Figures, figures_of
from pipeline.doctor.ladder import climb
from pipeline.doctor.sample import behavior, masked
from pipeline.doctor.sampler import SamplerFailed
from pipeline.doctor.start import started_bench
from pipeline.doctor.verdict import Verdict
from pipeline.errors import RunFailed
from pipeline.preflight.check import check
from pipeline.records.run_folder import RunFolder


@dataclass(frozen=True)
class Points:
    """The shared sample token by token, T tokens that the policy sampled."""

    train: list[float]  # [T] the trainer's logprobs
    infer: list[float]  # [T] the sampler's
    position: list[int]  # [T] within the response


@dataclass(frozen=True)
class Examination:
    """Everything that report and comparison are written from."""

    name: str
    model: str
    dtype: str
    verdicts: list[Verdict]
    figures: Figures
    points: Points
    by_lag: dict[int, list[float]]  # δ of the same completions, by how many versions the trainer is ahead
    engine: dict[str, Any]  # what the rollout worker said of itself
    seconds: float


class CouldNotRun(RunFailed):
    """The examination itself did not take place."""


def examine(config: Config, out: Path, on_verdict: Callable[[Verdict], None]) -> Examination:
    """Examine a checked config; logs of the two halves go to `out`/logs.

    Raises:
        ValueError: something that the user can fix.
        CouldNotRun: a half did not start.
    """
    check(config, saves=False)
    folder = RunFolder(out.resolve())
    try:
        folder.logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out={out} cannot be written ({error.strerror}); choose another folder") from None
    try:
        return asyncio.run(_examine(config, folder, on_verdict))
    except asyncio.CancelledError:
        raise KeyboardInterrupt("interrupted; both halves have ended") from None
    except (RunFailed, SamplerFailed) as failure:
        raise CouldNotRun(f"{failure}; see {folder.logs}") from failure


async def _examine(config: Config, folder: RunFolder, on_verdict: Callable[[Verdict], None]) -> Examination:
    main = asyncio.current_task()
    assert main is not None
    for sig in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sig, main.cancel)
    started = time.monotonic()
    async with started_bench(config, folder) as bench:
        verdicts = await climb(bench, on_verdict)
        points = _points(bench)
        return Examination(
            name=config.run.name,
            model=config.model.path,
            dtype=config.model.dtype,
            verdicts=verdicts,
            figures=figures_of(points.train, points.infer),
            points=points,
            by_lag=dict(bench.by_lag),
            engine=bench.sampler.info,
            seconds=time.monotonic() - started,
        )


def _points(bench: Bench) -> Points:
    try:
        sample = bench.sample
    except SamplerFailed:
        return Points([], [], [])
    trajectories = sample.trajectories
    positions = masked(trajectories, [range(len(t.response_token_ids)) for t in trajectories])
    return Points(masked(trajectories, sample.scores), behavior(trajectories), [int(p) for p in positions])
