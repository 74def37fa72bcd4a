"""The quantities that the study's figures show, and the metric of metrics.jsonl that each is read from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Panel:
    """One quantity over steps: `scale` · (metric + `shift`)."""

    key: str
    title: str
    metric: str
    shift: float = 0.0
    scale: float = 1.0
    judged: bool = True  # whether the final variant must stay in the reference's band


PANELS: tuple[Panel, ...] = (
    Panel("clip", "clip rate: clamp_log_ratio_new_old_indicator", "rl/clamp_log_ratio_new_old_indicator"),
    Panel("kl", "KL of old and new policy: kl_new_old", "rl/kl_new_old"),
    Panel("entropy", "entropy of the current policy", "rl/entropy"),
    Panel("reward", "reward", "rl/reward"),
    Panel("logprobs", "current-policy logprobs of the sampled tokens", "rl/logprobs"),
    Panel("ratio", "policy ratio − 1, × 10,000", "rl/ratio_new_old", shift=-1.0, scale=1e4),
    # Depends on how fast the machine samples, hence no verdict on the engine.
    Panel("lag", "lag of the sampled tokens, in training steps", "rl/lag", judged=False),
)


def panel(key: str) -> Panel:
    """The panel called `key`."""
    return next(p for p in PANELS if p.key == key)


@dataclass(frozen=True)
class Figure:
    """One of the documents' figures: which panels, and the variants of which roles."""

    number: int
    title: str
    panels: tuple[str, ...]
    roles: tuple[str, ...]


FIGURES: tuple[Figure, ...] = (
    Figure(
        1,
        "Trainer-side metrics: the reference, the first attempt on V1 and the final V1",
        ("clip", "kl", "entropy", "reward"),
        ("reference", "initial", "final"),
    ),
    Figure(
        2,
        "The first sign: current-policy logprobs and reward of the first attempt",
        ("logprobs", "reward"),
        ("reference", "initial"),
    ),
    Figure(
        3,
        "Trainer-side metrics of the first attempt",
        ("clip", "kl", "entropy", "reward"),
        ("reference", "initial"),
    ),
    Figure(
        4,
        "Deviation of the policy ratio from 1 (× 10,000), before and after the repairs",
        ("ratio",),
        ("reference", "initial", "final"),
    ),
    Figure(
        5,
        "Lag: training steps by which the sampler's weights are behind",
        ("lag",),
        ("reference", "initial", "final"),
    ),
    Figure(6, "Reward with the float32 lm_head", ("reward",), ("reference", "initial", "final")),
    Figure(
        7,
        "All variants over the reference's seed-to-seed band",
        ("clip", "kl", "entropy", "reward", "logprobs", "ratio", "lag"),
        ("reference", "initial", "repair", "final", "current", "control"),
    ),
)
