"""Generated tokens per second by the rollout worker against vLLM's raw `AsyncLLM`, same requests and engine arguments.

    python -m benchmarks.rollout_speed [--json OUT] [--groups N] [key=value ...]

Both engines live at the same time and take turns; the one that waits sleeps. Requests carry the same seeds, so both
sample the very same tokens, which is checked. The worker also computes the rewards and builds trajectories.
"""

import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measurement import median_ratio
from benchmarks.outcome import Outcome, Target, arguments, show
from benchmarks.quiet import run_quietly
from benchmarks.sampler_cases import published, quickstart_config, quickstart_prompts
from benchmarks.training_cases import join_alone, make_trainer
from configs.schema import Config
from exchange.types import Prompt, Sampling
from rollout.engines.request_seed import request_seed
from rollout.worker import RolloutWorker

Tokens = list[tuple[int, ...]]  # [group × sample] sampled token ids


class RawEngine:
    """`AsyncLLM` as a script would use it."""

    def __init__(self, engine_args: dict[str, Any], end_token_ids: Sequence[int]) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM
        from vllm.v1.executor.uniproc_executor import UniProcExecutor

        args = engine_args | {"distributed_executor_backend": UniProcExecutor}
        self._llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**args))
        self._end_token_ids = list(end_token_ids)

    async def generate(self, request_id: str, prompt: Prompt, sampling: Sampling, seed: int) -> tuple[int, ...]:
        """One completion with the logprobs of its tokens."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(
            temperature=sampling.temperature,
            max_tokens=sampling.max_new_tokens,
            seed=seed,
            stop_token_ids=self._end_token_ids,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        async for output in self._llm.generate({"prompt_token_ids": list(prompt.token_ids)}, params, request_id):
            last = output
        return tuple(last.outputs[0].token_ids)

    def close(self) -> None:
        self._llm.shutdown()


async def first_version(worker: RolloutWorker, config: Config, prompts: list[Prompt]) -> None:
    """Publish version 0, without which the worker labels nothing that it samples."""
    join_alone()
    probe = tuple(t for p in prompts for t in p.token_ids)[: config.rollout.weight_sync.probe_tokens]
    with tempfile.TemporaryDirectory() as folder:
        await worker.update(published(make_trainer(config.model.path, config.actor), 0, Path(folder), probe))


async def by_worker(worker: RolloutWorker, prompts: list[Prompt], sampling: Sampling, n: int, round_: int) -> Tokens:
    """All groups at once."""
    calls = (worker.generate_group(f"{round_}-{i}", p, 0, sampling, n) for i, p in enumerate(prompts))
    return [t.response_token_ids for group in await asyncio.gather(*calls) for t in group.trajectories]


async def by_raw(raw: RawEngine, prompts: list[Prompt], sampling: Sampling, n: int, round_: int, base: int) -> Tokens:
    """The same requests, with the worker's seeds."""
    names = [(f"{round_}-{i}/{sample}/0", p) for i, p in enumerate(prompts) for sample in range(n)]
    calls = (raw.generate(name, p, sampling, request_seed(base, name)) for name, p in names)
    return list(await asyncio.gather(*calls))


async def compare(config: Config, prompts: list[Prompt], repeats: int) -> tuple[dict[str, list[float]], list[int]]:
    """Seconds of both, and tokens generated, round by round."""
    from rollout.data.tokenizer import eos_token_ids, load_tokenizer

    sampling = Sampling(config.rollout.sampling.temperature, config.rollout.sampling.max_new_tokens)
    n, base = config.rollout.sampling.n_samples, config.run.seed
    worker = RolloutWorker(config, 0)
    info = await worker.start()
    await first_version(worker, config, prompts)
    ends = eos_token_ids(load_tokenizer(config.model.path, config.model.trust_remote_code), config.model.path)
    raw = await asyncio.to_thread(RawEngine, info["engine_args"], ends)
    seconds: dict[str, list[float]] = {"rollout worker": [], "raw AsyncLLM": []}
    num_tokens = []
    try:
        for round_ in range(-1, repeats):
            ways = {
                "rollout worker": lambda r=round_: by_worker(worker, prompts, sampling, n, r),
                "raw AsyncLLM": lambda r=round_: by_raw(raw, prompts, sampling, n, r, base),
            }
            results = []
            # The order alternates, so that neither always comes first.
            for name in sorted(ways, reverse=round_ % 2 == 0):
                gc.collect()
                started = time.perf_counter()
                results.append(await ways[name]())
                if round_ >= 0:
                    seconds[name].append(time.perf_counter() - started)
            assert results[0] == results[1], "both must sample the same tokens"
            num_tokens += [sum(map(len, results[0]))] if round_ >= 0 else []
    finally:
        raw.close()
        await worker.close()
    return seconds, num_tokens


def main() -> None:
    parser = arguments(__doc__, repeats=7)
    parser.add_argument("--groups", type=int, default=32, help="prompts in flight, 8 completions each (default 32)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config keys to change")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "VLLM_LOGGING_LEVEL": "ERROR"} | os.environ
    config = quickstart_config([f"rollout.max_concurrent_rollouts={options.groups}", *options.overrides])
    prompts = quickstart_prompts(config, options.groups)
    seconds, num_tokens = asyncio.run(compare(config, prompts, options.repeats))
    raw = seconds["raw AsyncLLM"]
    rows = [
        {
            "by": name,
            "seconds": statistics.median(taken),
            "tokens/s": statistics.median(n / s for n, s in zip(num_tokens, taken, strict=True)),
            "speed of raw": median_ratio(raw, taken),
        }
        for name, taken in seconds.items()
    ]
    n = config.rollout.sampling.n_samples
    title = f"Generation: {options.groups} groups of {n}, {statistics.median(num_tokens):.0f} tokens"
    targets = [Target("speed of the raw engine", median_ratio(raw, seconds["rollout worker"]), 0.95, True)]
    show(Outcome(title, rows, targets), options.json)


if __name__ == "__main__":
    run_quietly(main)
