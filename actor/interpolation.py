"""Between the behavior and the current policy: the proximal policy guessed from how far apart their versions are."""

import torch

from actor.batch import TokenBatch

CLOCKS = ("minibatch", "step", "lagged")


def interpolation_weight(
    versions: torch.Tensor, version: int, minibatch: int, num_minibatches: int, clock: str
) -> torch.Tensor:
    """α = (v_prox − v_behavior) / (v_θ − v_behavior), clamped to [0, 1].

    The clock says where the two policies stand: `minibatch` v_prox = v, v_θ = v + i/n; `step` v_prox = v,
    v_θ = v + 1; `lagged` v_prox = v − 1, v_θ = v. Where v_θ = v_behavior α is 1 under `minibatch` (the current
    policy is the proximal one) and 0 under `lagged`.

    Args:
        versions: [T] int64, the version that sampled each token.
        version: v, training steps completed.
        minibatch: i, 0-based.
        num_minibatches: n.
        clock: `actor.prox_version_clock`.

    Returns:
        α, [T] float64.

    Raises:
        ValueError: an unknown clock.
    """
    assert 0 <= minibatch < num_minibatches
    # Versions are counted in units of 1/n: the differences are then exact.
    n = num_minibatches
    behavior = versions * n
    match clock:
        case "minibatch":
            proximal, current, tie = version * n, version * n + minibatch, 1.0
        case "step":
            proximal, current, tie = version * n, (version + 1) * n, 0.0
        case "lagged":
            proximal, current, tie = (version - 1) * n, version * n, 0.0
        case _:
            raise ValueError(f"actor.prox_version_clock is {clock!r}: choose one of {', '.join(CLOCKS)}")
    distance = (current - behavior).double()
    same = distance == 0
    alpha = (proximal - behavior).double() / torch.where(same, torch.ones_like(distance), distance)
    return torch.where(same, torch.full_like(alpha, tie), alpha).clamp(0.0, 1.0)


def loglinear(behavior_logprobs: torch.Tensor, logprobs: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """behavior + α·(logprobs − behavior): the geometric mean of the two policies, without gradient. All [T]."""
    # lerp is exact at both ends, so that α = 1 gives ratio 1 to the last bit.
    return torch.lerp(behavior_logprobs, logprobs.detach(), alpha.to(logprobs.dtype))


def linear(behavior_logprobs: torch.Tensor, logprobs: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """log((1 − α)·e^behavior + α·e^logprobs): the mixture of the two policies, without gradient. All [T]."""
    weight = alpha.to(logprobs.dtype)
    return torch.logaddexp(torch.log1p(-weight) + behavior_logprobs, torch.log(weight) + logprobs.detach())


APPROXIMATIONS = {"loglinear": loglinear, "linear": linear}


def require_versions(tokens: TokenBatch, version: int) -> None:
    """Every response token must carry the version that sampled it, at most the trainer's own.

    Raises:
        ValueError: a version below 0 or above `version` under the mask.
    """
    bad = tokens.mask & ((tokens.versions < 0) | (tokens.versions > version))
    if bool(bad.any()):
        raise ValueError(
            f"versions: {int(bad.sum())} of {int(tokens.mask.sum())} response tokens carry no version between 0 and "
            f"{version} (one carries {int(tokens.versions[bad][0])}); the approximations of the proximal policy need "
            f"the version that sampled each token: set actor.prox_logp_method=recompute, or fix the sampler's labels"
        )
