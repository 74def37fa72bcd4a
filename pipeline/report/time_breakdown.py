"""Where a step's time goes: the laps of the training loop and the trainer's phases, averaged over steps."""

from collections.abc import Mapping

from pipeline.report.series import Series

STEP = "timing/step_s"
TRAIN = "train"
LAPS = {
    "wait_batch": "waiting for a batch",
    "build_batch": "building the batch",
    "parity": "measuring agreement",
    TRAIN: "training, other",
    "wait_update": "waiting for the workers' update",
    "publish": "publishing weights",
    "write_trajectories": "writing trajectories",
}
"""Laps of one step in their order (`pipeline.run.loop`), in words."""
PHASES = {
    "pack": "packing",
    "proximal_forward": "proximal forward",
    "forward_backward": "forward and backward",
    "optimizer": "optimizer",
    "proximal_record": "proximal logprobs for the record",
    "reference_reset": "reference reset",
}
"""Phases of the lap `train` (`actor.trainer`), in words."""
REST = "the rest"


def time_breakdown(series: Mapping[str, Series]) -> dict[str, float]:
    """Part of a step → mean seconds; a part that some steps lack counts as 0 in them.

    The parts add up to the mean of `timing/step_s` where that was recorded.
    """
    num_steps = max((len(s.values) for name, s in series.items() if name.startswith("timing/")), default=0)

    def mean_s(name: str) -> float | None:
        one = series.get(f"timing/{name}_s")
        return None if one is None else float(one.values.sum()) / num_steps

    parts: dict[str, float] = {}
    for lap, text in LAPS.items():
        seconds = mean_s(lap)
        if seconds is None:
            continue
        if lap == TRAIN:
            phases = {words: s for phase, words in PHASES.items() if (s := mean_s(phase)) is not None}
            parts |= phases
            seconds = max(0.0, seconds - sum(phases.values()))
        parts[text] = seconds
    step_s = mean_s("step")
    if step_s is not None and step_s > sum(parts.values()):
        parts[REST] = step_s - sum(parts.values())
    return parts
