"""Residue: what is left between the two halves, held against rounding in this dtype."""

from pipeline.doctor.bench import Bench
from pipeline.doctor.figures import figures_of
from pipeline.doctor.sample import behavior, masked
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "kernels and dtype"


async def residue(bench: Bench) -> Verdict:
    """Mean |δ| and its size relative to the logprobs, over the whole sample."""
    sample, limits = bench.sample, bench.limits
    trajectories = sample.trajectories
    figures = figures_of(masked(trajectories, sample.scores), behavior(trajectories))
    note = f"mean |δ| over {figures.num_tokens} tokens; relative {figures.relative:.2g}, largest {figures.max_abs:.2g}"
    figure, limit = figures.mean_abs, limits.residue
    if not figure <= limit or not figures.relative <= limits.relative:
        return failed(
            RUNG,
            note,
            f"what is left is more than rounding in {bench.config.model.dtype}, and no rung above explains it: "
            "kernels or precision differ",
            "model.dtype",
            figure,
            limit,
        )
    return passed(RUNG, note, figure, limit)
