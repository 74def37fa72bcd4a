"""Positions, padding, packing: a sequence scores the same alone and in a row with others."""

from pipeline.doctor.bench import Bench
from pipeline.doctor.sample import masked, mean_abs
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "positions and packing"


async def packing(bench: Bench) -> Verdict:
    """The trainer's logprobs of all sequences in shared rows against one sequence a row."""
    sample, limit = bench.sample, bench.limits.packing
    sequences, trajectories = sample.sequences, sample.trajectories
    alone = await bench.score(sequences, [[s] for s in sequences])
    together = await bench.score(sequences, [sequences])
    figure = mean_abs(masked(trajectories, together), masked(trajectories, alone))
    note = f"{len(sequences)} sequences in one row against one sequence a row"
    if figure > limit:
        cause = "packed sequences see each other: positions do not restart, or attention crosses from one to the next"
        return failed(RUNG, note, cause, "actor.attn_implementation", figure, limit)
    return passed(RUNG, note, figure, limit)
