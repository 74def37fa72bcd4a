"""Weight updates of a generating engine: seconds of every phase, and per GB against a copy in memory.

    python -m benchmarks.weight_update [--json OUT] [--model FOLDER] [--in-flight N] [key=value ...]

The trainer publishes, the rollout worker pauses, loads, checks every tensor, labels, resumes and proves the new weights
by the probe, while requests are in flight: all of it the code that a run executes.
"""

import asyncio
import dataclasses
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from actor.trainer import Trainer
from benchmarks.outcome import Outcome, arguments, show
from benchmarks.quiet import run_quietly
from benchmarks.sampler_cases import published, quickstart_config, random_prompts
from benchmarks.training_cases import join_alone, make_trainer
from configs.schema import Config
from exchange.types import Prompt, Sampling, UpdateReport
from rollout.worker import RolloutWorker

GB = 1e9
SHARED_MEMORY = Path("/dev/shm")
_PROMPT_TOKENS = 16


def move_weights(trainer: Trainer) -> None:
    """Change every weight a little, as a step would."""
    with torch.no_grad():
        for parameter in trainer.policy.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=1e-4)


def copy_seconds(trainer: Trainer) -> float:
    """Of copying all weights once from memory to memory, into pages that exist already."""
    sources = [p.detach() for p in trainer.policy.parameters()]
    targets = [torch.zeros_like(s) for s in sources]
    started = time.perf_counter()
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)
    return time.perf_counter() - started


@asynccontextmanager
async def requests_in_flight(worker: RolloutWorker, prompts: list[Prompt], num_tokens: int) -> AsyncIterator[None]:
    """Keep one completion of each prompt running, a new one as soon as one ends."""
    number = itertools.count()

    async def keep_busy(prompt: Prompt) -> None:
        while True:
            await worker.generate_group(f"busy-{next(number)}", prompt, 0, Sampling(1.0, num_tokens), 1, score=False)

    tasks = [asyncio.create_task(keep_busy(p)) for p in prompts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with suppress(Exception):
            await asyncio.gather(*tasks, return_exceptions=True)


async def measure(config: Config, trainer: Trainer, prompts: list[Prompt], repeats: int) -> list[dict[str, float]]:
    """Seconds by phase, one dict an update."""
    rounds: list[dict[str, float]] = []
    probe = tuple(t for p in prompts for t in p.token_ids)[: config.rollout.weight_sync.probe_tokens]
    worker = RolloutWorker(config, 0)
    base = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    await worker.start()
    with tempfile.TemporaryDirectory(prefix="proxrl-", dir=base) as root:
        try:
            for version in range(repeats + 1):
                folder = Path(root) / f"v{version}"
                folder.mkdir()
                started = time.perf_counter()
                update = published(trainer, version, folder, probe)
                publish_s = time.perf_counter() - started
                async with requests_in_flight(worker, prompts, config.rollout.sampling.max_new_tokens):
                    await asyncio.sleep(1.0 if version else 0.0)
                    started = time.perf_counter()
                    report = await worker.update(update)
                    update_s = time.perf_counter() - started
                for bucket in update.buckets:
                    Path(bucket).unlink()
                if version:  # the first one also warms the engine up
                    rounds.append(_phases(report, publish_s, update_s) | {"copy": copy_seconds(trainer)})
                move_weights(trainer)
        finally:
            await worker.close()
    return rounds


def _phases(report: UpdateReport, publish_s: float, update_s: float) -> dict[str, float]:
    paused = report.pause_s + report.load_s + report.verify_s + report.resume_s
    return {
        "publish": publish_s,
        "pause": report.pause_s,
        "load": report.load_s,
        "verify": report.verify_s,
        "resume": report.resume_s,
        "probe": update_s - paused,
        "generation is paused": paused,
    }


def main() -> None:
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--model", default=None, metavar="FOLDER", help="default: the quickstart's model")
    parser.add_argument("--in-flight", type=int, default=8, help="requests in flight (default 8)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config keys to change")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "VLLM_LOGGING_LEVEL": "ERROR"} | os.environ
    torch.set_num_threads(1)
    model = [] if options.model is None else [f"model.path={options.model}"]
    rollouts = [f"rollout.max_concurrent_rollouts={options.in_flight}"]
    config = quickstart_config([*rollouts, *options.overrides, *model])
    join_alone()
    trainer = make_trainer(config.model.path, dataclasses.replace(config.actor))
    size_gb = sum(p.numel() * p.element_size() for p in trainer.policy.parameters()) / GB
    vocabulary = trainer.policy.inner.config.get_text_config().vocab_size
    prompts = random_prompts(vocabulary, options.in_flight, _PROMPT_TOKENS)
    rounds = asyncio.run(measure(config, trainer, prompts, options.repeats))
    rows: list[dict[str, Any]] = []
    for phase in rounds[0]:
        seconds = statistics.median(r[phase] for r in rounds)
        rows.append(
            {
                "phase": phase,
                "seconds": seconds,
                "seconds per GB": seconds / size_gb,
                "of a copy": statistics.median(r[phase] / r["copy"] for r in rounds),
            }
        )
    title = f"Weight update of {size_gb:.3g} GB with {options.in_flight} requests in flight"
    show(Outcome(title, rows), options.json)


if __name__ == "__main__":
    run_quietly(main)
