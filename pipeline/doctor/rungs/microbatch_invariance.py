"""Micro-batch invariance: how the trainer divides a batch changes nothing."""

from actor.packing import plan
from pipeline.doctor.bench import Bench
from pipeline.doctor.sample import masked, mean_abs
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "micro-batch invariance"


async def microbatch_invariance(bench: Bench) -> Verdict:
    """The job's own micro-batches against ones of half the tokens in reverse order."""
    sample, limit = bench.sample, bench.limits.packing
    sequences, trajectories = sample.sequences, sample.trajectories
    budget = min(bench.config.actor.max_tokens_per_microbatch, sum(s.num_tokens for s in sequences))
    halves = plan([sequences[::-1]], 1, max(1, budget // 2))[0][0][::-1]
    scores = await bench.score(sequences, halves)
    figure = mean_abs(masked(trajectories, scores), masked(trajectories, sample.scores))
    note = f"the job's micro-batches against {len(halves)} smaller ones in another order"
    if figure > limit:
        cause = "the trainer's logprobs depend on how the batch is divided into micro-batches"
        return failed(RUNG, note, cause, "actor.max_tokens_per_microbatch", figure, limit)
    return passed(RUNG, note, figure, limit)
