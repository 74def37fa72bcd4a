"""Weights: every tensor that the trainer published against what the engine holds, a tied head included."""

from pipeline.doctor.bench import Bench
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "weights"


async def weights(bench: Bench) -> Verdict:
    """The account of the newest update: checksums on arrival, and comparison after the load."""
    report = bench.report
    note = f"{bench.num_published} tensors by checksum on both sides"
    if report is None:
        cause = f"the engine does not hold the trainer's weights: {bench.lost}"
        return failed(RUNG, note, cause, "rollout.weight_sync.backend")
    if report.num_tensors_checked != bench.num_published:
        cause = f"only {report.num_tensors_checked} of {bench.num_published} published tensors were compared"
        return failed(RUNG, note, cause, "rollout.weight_sync.backend")
    # With equal weights a difference of the probe is one of computation, which the rungs below name.
    return passed(RUNG, f"{note}; {len(bench.probe)} probe tokens differ by {report.probe_mean_abs_diff:.1g}")
