"""Estimators of the divergence from the reference policy, per token. log r = ref_logprobs − logprobs.

Source: Schulman, "Approximating KL divergence", 2020 (http://joschu.net/blog/kl-approx.html).
"""

from typing import Literal

import torch

from actor.ratios import LOG_RATIO_LIMIT

KLHealth = Literal["too slow", "healthy", "watch", "drifting"]

SLOW_BELOW = 0.01  # the policy hardly moves
HEALTHY_UP_TO = 0.1
DRIFTING_ABOVE = 0.2  # check the coefficient and the reward


def kl_k1(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """−log r: unbiased, high variance, can be negative. [T], [T] → [T]."""
    return logprobs - ref_logprobs


def kl_abs(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """|log r|. [T], [T] → [T]."""
    return (ref_logprobs - logprobs).abs()


def kl_k2(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """½(log r)²: low variance; its gradient is that of the reverse KL on the policy's samples. [T], [T] → [T]."""
    return 0.5 * (ref_logprobs - logprobs) ** 2


def kl_k3(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """(r − 1) − log r: unbiased and never negative; its gradient is that of the forward KL. [T], [T] → [T]."""
    log_ratio = ref_logprobs - logprobs
    # expm1: for nearby policies exp(x) − 1 − x cancels to nothing in float32.
    return log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).expm1() - log_ratio


def kl_k3_plus(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """k3's value with k2's gradient (straight-through). [T], [T] → [T]."""
    k2 = kl_k2(logprobs, ref_logprobs)
    return kl_k3(logprobs, ref_logprobs).detach() + (k2 - k2.detach())


_ESTIMATORS = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3, "k3+": kl_k3_plus, "abs": kl_abs}


def kl_estimate(kind: str, logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """The estimator named by `actor.kl.type`. [T], [T] → [T].

    Raises:
        ValueError: an unknown name.
    """
    assert logprobs.shape == ref_logprobs.shape
    if kind not in _ESTIMATORS:
        raise ValueError(f"actor.kl.type is {kind!r}: choose one of {', '.join(_ESTIMATORS)}")
    return _ESTIMATORS[kind](logprobs, ref_logprobs.detach())


def kl_health(kl: float) -> KLHealth:
    """What a step's mean KL says about the run: below 0.01 too slow, to 0.1 healthy, above 0.2 drifting.

    Between healthy and drifting lies a range that calls for neither: `watch`.
    """
    if kl < SLOW_BELOW:
        return "too slow"
    if kl <= HEALTHY_UP_TO:
        return "healthy"
    return "drifting" if kl > DRIFTING_ABOVE else "watch"
