"""An update in flight: which tokens bear which version, and whether the tokens before it are untouched."""

import asyncio
import shutil
from dataclasses import replace

from exchange.types import Sampling, Trajectory
from pipeline.doctor.bench import NUM_SAMPLES, Bench
from pipeline.doctor.sample import Sample, behavior, masked, mean_abs
from pipeline.doctor.verdict import Verdict, failed, not_applicable, passed

RUNG = "an update in flight"
NUM_PROMPTS = 4
LONGEST = 128  # tokens
DELAYS_S = (0.1, 0.3, 0.02)  # between the requests and the update, one a try


async def in_flight(bench: Bench) -> Verdict:
    """The same requests twice, once undisturbed and once through an update."""
    sampling = _long(bench)
    for delay_s in DELAYS_S:
        undisturbed, crossed = await _across_update(bench, sampling, delay_s)
        if any(len(set(t.versions)) > 1 for t in crossed.trajectories):
            return _judge(bench, undisturbed, crossed)
    return not_applicable(RUNG, "completions are too short: each ended before or began after the update")


def _long(bench: Bench) -> Sampling:
    """Completions as long as the engine's context allows, so that an update meets them."""
    longest = max(len(p.token_ids) for p in bench.prompts[:NUM_PROMPTS])
    room = int(bench.engine_args.get("max_model_len") or 0) - longest
    return replace(bench.sampling, max_new_tokens=max(bench.sampling.max_new_tokens, min(room, LONGEST)))


async def _across_update(bench: Bench, sampling: Sampling, delay_s: float) -> tuple[Sample, Sample]:
    """Drawn at version v; then the same names again, with the update to v + 1 on the way."""
    prompts, name = bench.prompts[:NUM_PROMPTS], f"doctor-flight-{bench.version}"
    undisturbed = await bench.draw(prompts, sampling, NUM_SAMPLES, name)
    await bench.train()
    folder = await bench.publish()
    try:
        drawing = asyncio.ensure_future(bench.draw(prompts, sampling, NUM_SAMPLES, name))
        await asyncio.sleep(delay_s)
        await bench.load()
        return undisturbed, await drawing
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judge(bench: Bench, undisturbed: Sample, crossed: Sample) -> Verdict:
    allowed, limit = {bench.version - 1, bench.version}, bench.decode_limit
    note = "change of the tokens before the update"
    if any(set(t.versions) - allowed for t in crossed.trajectories):
        return failed(RUNG, note, "tokens bear versions that the engine never held", "rollout.engine")
    before_a: list[float] = []
    before_b: list[float] = []
    num_crossed = 0
    for a, b in zip(undisturbed.trajectories, crossed.trajectories, strict=True):
        n = _num_before(b, bench.version)
        num_crossed += 0 < n < len(b.versions)
        if a.response_token_ids[:n] != b.response_token_ids[:n]:
            cause = "tokens labelled with the version before the update are not those that its weights sample"
            return failed(RUNG, note, cause, "rollout.weight_sync.pause_mode")
        before_a += a.behavior_logprobs[:n]
        before_b += b.behavior_logprobs[:n]
    figure = mean_abs(before_a, before_b)
    if figure > limit:
        cause = "logprobs of tokens before the update changed with it"
        return failed(RUNG, note, cause, "rollout.weight_sync.pause_mode", figure, limit)
    stale = mean_abs(masked(crossed.trajectories, crossed.scores), behavior(crossed.trajectories))
    return passed(RUNG, f"{note}; {num_crossed} completions crossed it and differ by {stale:.1g} from a clean forward",
                  figure, limit)  # fmt: skip


def _num_before(t: Trajectory, version: int) -> int:
    return sum(v < version for v in t.versions)
