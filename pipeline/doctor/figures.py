"""δ = logp_train − logp_infer in every figure that is usual for it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

RELATIVE_FLOOR = 1e-8


@dataclass(frozen=True)
class Figures:
    """Over T tokens; the KLs are estimates on the sampler's own tokens."""

    num_tokens: int
    mean: float
    mean_abs: float
    max_abs: float
    p99_abs: float
    relative: float  # Σ|δ| / Σ|logp_train|; a mean of quotients would be ruled by tokens of probability 1
    ratio_deviation: float  # mean |exp(δ) − 1|
    kl_infer_train: float  # k3
    kl_train_infer: float  # k3, weighed by exp(δ)
    prob_diff_mean: float
    prob_diff_max: float
    prob_corr: float


def figures_of(train: Sequence[float], infer: Sequence[float]) -> Figures:
    """All figures of two [T] lists of logprobs; zeros without tokens."""
    if not train:
        return Figures(0, *([0.0] * 11))
    ours, theirs = torch.tensor(train, dtype=torch.float64), torch.tensor(infer, dtype=torch.float64)
    delta = ours - theirs
    size, bounded = delta.abs(), delta.clamp(-20, 20)
    probs = (ours.exp() - theirs.exp()).abs()
    return Figures(
        num_tokens=len(train),
        mean=float(delta.mean()),
        mean_abs=float(size.mean()),
        max_abs=float(size.max()),
        p99_abs=float(size.quantile(0.99)) if bool(size.isfinite().all()) else math.inf,
        relative=float(size.sum() / (ours.abs().sum() + RELATIVE_FLOOR)),
        ratio_deviation=float(bounded.expm1().abs().mean()),
        kl_infer_train=float((bounded.expm1() - delta).mean()),
        kl_train_infer=float((bounded.exp() * delta - bounded.expm1()).mean()),
        prob_diff_mean=float(probs.mean()),
        prob_diff_max=float(probs.max()),
        prob_corr=_correlation(ours.exp(), theirs.exp()),
    )


def _correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(a.norm() * b.norm())
    return float((a * b).sum()) / scale if scale > 0 else 1.0
