"""Weights: every tensor that the trainer published against what the engine holds, a tied head included."""

from pipeline.doctor.bench import Bench
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "weights"


async def weights(bench: Bench) -> Verdict:
    """The account of the newest update: checksums on arrival, comparison after the load, and the probe."""
    report, limit = bench.report, bench.config.rollout.weight_sync.probe_limit or bench.limits.residue
    note = f"{bench.num_published} tensors by checksum on both sides, then {len(bench.probe)} probe tokens"
    if report is None:
        cause = f"the engine does not hold the trainer's weights: {bench.lost}"
        return failed(RUNG, note, cause, "rollout.weight_sync.backend")
    if report.num_tensors_checked != bench.num_published:
        cause = f"only {report.num_tensors_checked} of {bench.num_published} published tensors were compared"
        return failed(RUNG, note, cause, "rollout.weight_sync.backend")
    return passed(RUNG, note, report.probe_mean_abs_diff, limit)
