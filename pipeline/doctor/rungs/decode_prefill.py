"""Decode against prefill: the engine samples token by token what it would score in one pass."""

import asyncio

from exchange.types import Sampling
from pipeline.doctor.bench import NUM_SAMPLES, Bench
from pipeline.doctor.sample import Sample, mean_abs
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "decode against prefill"
NUM_DRAWN = 2  # prompts, where the job does not sample at temperature 1


async def decode_prefill(bench: Bench) -> Verdict:
    """Logprobs recorded while sampling at temperature 1 against the engine's own score of the same ids."""
    plain = Sampling(1.0, bench.sampling.max_new_tokens, stop_token_ids=bench.sampling.stop_token_ids)
    sample = bench.sample
    if bench.sampling != plain:
        sample = await bench.draw(bench.prompts[:NUM_DRAWN], plain, NUM_SAMPLES)
    figure, limit = await decode_difference(bench, sample), bench.decode_limit
    num_tokens = sum(len(t.response_token_ids) for t in sample.trajectories)
    note = f"{num_tokens} tokens sampled, then scored by the engine"
    if figure > limit:
        cause = "the engine's decode and prefill compute different probabilities for the same tokens"
        return failed(RUNG, note, cause, "rollout.vllm_config.vllm_kwargs", figure, limit)
    return passed(RUNG, note, figure, limit)


async def decode_difference(bench: Bench, sample: Sample) -> float:
    """Mean |sampled − scored| over the requests of a sample drawn at temperature 1, the engine against itself."""
    requests = [turn for turns in sample.turns for turn in turns]
    scored = await asyncio.gather(
        *(bench.score_by_engine(r.prompt_token_ids, r.completion.token_ids) for r in requests)
    )
    sampled: list[float] = []
    for request, row in zip(requests, scored, strict=True):
        sampled += request.completion.logprobs[: len(row)]
    return mean_abs(sampled, [x for row in scored for x in row])
