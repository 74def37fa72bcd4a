"""Logits processing: temperature and truncation on both sides, by asking which side forgot them."""

import asyncio
from dataclasses import replace

from pipeline.doctor.bench import Bench
from pipeline.doctor.sample import Sample, Scores, behavior, explained, masked, mean_abs
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "logits processing"
MODE_KEY = "rollout.vllm_config.vllm_kwargs.logprobs_mode"


async def logits_processing(bench: Bench) -> Verdict:
    """The engine's own logprobs at temperature 1 are the arbiter: whichever side equals them forgot something."""
    sample, limit = bench.sample, bench.limits.residue
    trajectories = sample.trajectories
    ours, theirs = behavior(trajectories), masked(trajectories, sample.scores)
    difference = mean_abs(theirs, ours)
    note = f"temperature {bench.sampling.temperature:g}, top_p {bench.sampling.top_p:g}, top_k {bench.sampling.top_k}"
    if difference <= limit:
        return passed(RUNG, f"{note}; fraction of δ that forgetting one takes away", 0.0, bench.limits.explained)
    shares: dict[str, float] = {}
    if any(t.kept_token_ids for t in trajectories):
        shares |= await _of_truncation(bench, sample, difference)
    if bench.sampling.temperature != 1.0:
        raw = await _at_temperature_one(bench, sample)
        common = [i for i, x in enumerate(raw) if x == x]
        plain = [raw[i] for i in common]
        shares["sampler"] = explained(mean_abs([ours[i] for i in common], plain), difference)
        shares["trainer"] = explained(mean_abs([theirs[i] for i in common], plain), difference)
    worst = max(shares, key=lambda k: shares[k], default=None)
    if worst is None or shares[worst] < bench.limits.explained:
        return passed(RUNG, f"{note}; fraction of δ that forgetting one takes away",
                      shares[worst] if worst else 0.0, bench.limits.explained)  # fmt: skip
    cause, key = _cause(worst, bench)
    return failed(RUNG, note, cause, key, shares[worst], bench.limits.explained)


def _cause(side: str, bench: Bench) -> tuple[str, str]:
    temperature = f"temperature {bench.sampling.temperature:g}"
    causes = {
        "sampler": (f"the sampler's logprobs are those before {temperature} was applied (raw_logprobs); set "
                    "processed_logprobs", MODE_KEY),
        "trainer": (f"the trainer scores at temperature 1 what was sampled at {temperature}",
                    "rollout.sampling.temperature"),
        "kept by trainer": ("the trainer does not renormalize over the tokens that top_p and top_k kept",
                            "rollout.sampling.top_p"),
        "kept by sampler": ("the sampler's logprobs are not renormalized over the tokens that top_p and top_k kept; "
                            "set processed_logprobs", MODE_KEY),
    }  # fmt: skip
    return causes[side]


async def _of_truncation(bench: Bench, sample: Sample, difference: float) -> dict[str, float]:
    """Which side left the renormalization out: the trainer's full distribution is the arbiter."""
    full = await bench.score([replace(s, kept_token_ids=None) for s in sample.sequences])
    trajectories = sample.trajectories
    plain, theirs = masked(trajectories, full), masked(trajectories, sample.scores)
    return {
        "kept by trainer": explained(mean_abs(theirs, plain), difference),
        "kept by sampler": explained(mean_abs(behavior(trajectories), plain), difference),
    }


async def _at_temperature_one(bench: Bench, sample: Sample) -> list[float]:
    """By the engine, flat; not a number where its context ends."""
    trajectories = sample.trajectories
    calls = [bench.score_by_engine(t.prompt_token_ids, t.response_token_ids) for t in trajectories]
    scored = await asyncio.gather(*calls)
    rows: Scores = [
        [*row, *[float("nan")] * (len(t.response_token_ids) - len(row))]
        for t, row in zip(trajectories, scored, strict=True)
    ]
    return masked(trajectories, rows)
