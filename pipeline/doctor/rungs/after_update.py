"""After one real update: weights, logprobs and labels once more."""

from pipeline.doctor.bench import NUM_PROMPTS, NUM_SAMPLES, Bench
from pipeline.doctor.sample import Sample, behavior, masked, mean_abs
from pipeline.doctor.sampler import SamplerFailed
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "after an update"
KEY = "rollout.weight_sync.backend"


async def after_update(bench: Bench) -> Verdict:
    """Train, publish, load; then fresh completions must carry the new label and agree with the trainer."""
    limit = max(bench.limits.residue, 2 * _difference(bench.sample))
    note = "mean |δ| of fresh completions after an optimizer step"
    await bench.train()
    try:
        await bench.synchronize()
    except SamplerFailed as failure:
        return failed(RUNG, note, f"the new weights did not arrive whole: {failure}", KEY)
    await bench.note_lag()
    fresh = await bench.draw(bench.prompts[:NUM_PROMPTS], bench.sampling, NUM_SAMPLES)
    versions = {v for t in fresh.trajectories for v in t.versions}
    if versions != {bench.version}:
        labels = ", ".join(map(str, sorted(versions)))
        cause = f"tokens sampled after the update to version {bench.version} carry the label {labels}"
        return failed(RUNG, note, cause, "rollout.engine")
    figure = _difference(fresh)
    if not figure <= limit:
        cause = "the engine does not sample from the new weights: they were labelled, not loaded"
        return failed(RUNG, note, cause, KEY, figure, limit)
    return passed(RUNG, f"{note}; all of version {bench.version}", figure, limit)


def _difference(sample: Sample) -> float:
    trajectories = sample.trajectories
    return mean_abs(masked(trajectories, sample.scores), behavior(trajectories))
