"""The proximal policy's log-probabilities: the centre of the trust region, at version v.

`recompute` and `metrics` take them from a forward pass at version v; `reuse` only for the minibatches
after the first, because in minibatch 0 the current policy *is* the proximal one; `loglinear` and `linear`
interpolate between the behavior and the current policy by how far apart their versions are.
"""

import torch

from actor.batch import TokenBatch
from actor.finite import require_scores
from actor.interpolation import APPROXIMATIONS, interpolation_weight, require_versions
from actor.metrics import Metric, Metrics
from actor.ratios import bounded_exp, floored

METHODS = ("recompute", "reuse", "loglinear", "linear", "metrics")

# The names below it are those that the field's dashboards know, three trailing underscores included.
PREFIX = "ppo_actor/update/compute_logp/"

# Keeps the relative error of a token that is certain (logprob 0) a number; as the published metric has it.
RELATIVE_ERROR_FLOOR = 1e-8
PERCENT = 100.0


def needs_forward(method: str, minibatch: int) -> bool:
    """Whether minibatch `minibatch` (0-based) needs a no-grad forward pass at version v, before any update.

    Raises:
        ValueError: an unknown method.
    """
    if method not in METHODS:
        raise ValueError(f"actor.prox_logp_method is {method!r}: choose one of {', '.join(METHODS)}")
    return method in ("recompute", "metrics") or (method == "reuse" and minibatch > 0)


def proximal_logprobs(
    method: str,
    tokens: TokenBatch,
    logprobs: torch.Tensor,
    recomputed: torch.Tensor | None,
    version: int,
    minibatch: int,
    num_minibatches: int,
    clock: str,
) -> torch.Tensor:
    """The proximal log-probabilities that this minibatch trains on, without gradient; 0 outside the mask.

    Args:
        method: `actor.prox_logp_method`.
        tokens: the micro-batch, T response tokens.
        logprobs: [T] of the current policy, temperature applied.
        recomputed: [T] of a forward pass at version v; needed where `needs_forward` says so.
        version: v. minibatch, num_minibatches: i and n. clock: `actor.prox_version_clock`.

    Returns:
        [T], in the dtype of `logprobs`.

    Raises:
        ValueError: an unknown method or clock, versions that are missing, or values that are NaN or +inf.
    """
    if needs_forward(method, minibatch):
        assert recomputed is not None, f"{method} needs a forward pass for minibatch {minibatch}"
        proximal = recomputed.detach().to(logprobs.dtype)
    elif method == "reuse":
        proximal = logprobs.detach()
    else:
        require_versions(tokens, version)
        alpha = interpolation_weight(tokens.versions, version, minibatch, num_minibatches, clock)
        behavior = floored(tokens.behavior_logprobs.to(logprobs.dtype), tokens.mask)
        proximal = APPROXIMATIONS[method](behavior, floored(logprobs, tokens.mask), alpha)
    require_scores(f"proximal_logprobs ({method})", proximal, tokens.mask)
    return floored(proximal, tokens.mask)


def compute_logp_metrics(
    method: str,
    tokens: TokenBatch,
    logprobs: torch.Tensor,
    proximal_logprobs: torch.Tensor,
    recomputed: torch.Tensor | None,
    version: int,
    minibatch: int,
    num_minibatches: int,
    clock: str,
) -> Metrics:
    """`ppo_actor/update/compute_logp/…` over the response tokens.

    Every method reports `prox_logp_gt` where the truth is known; `loglinear` and `linear` their own values;
    `metrics` the errors of `loglinear`, `linear` and `rollout` (the behavior policy itself).

    Args:
        method, tokens, logprobs, version, minibatch, num_minibatches, clock: as for `proximal_logprobs`.
        proximal_logprobs: [T], what the minibatch trains on.
        recomputed: [T] true proximal log-probabilities, where a forward pass was made.

    Raises:
        ValueError: `metrics` without versions.
    """
    mask = tokens.mask
    current = floored(logprobs.detach(), mask)
    behavior = floored(tokens.behavior_logprobs.to(current.dtype), mask)
    truth = recomputed
    if method == "reuse" and truth is None:
        truth = proximal_logprobs  # minibatch 0: the current policy is the proximal one
    metrics: Metrics = {}
    if truth is not None:
        truth = floored(truth.detach().to(current.dtype), mask)
        metrics[f"{PREFIX}prox_logp_gt"] = Metric.over(truth, mask)
    if method in APPROXIMATIONS:
        metrics |= _values(method, floored(proximal_logprobs, mask), behavior, current, mask)
    if method == "metrics":
        assert truth is not None, "metrics measures against a forward pass at version v"
        require_versions(tokens, version)
        alpha = interpolation_weight(tokens.versions, version, minibatch, num_minibatches, clock)
        approximations = {name: f(behavior, current, alpha) for name, f in APPROXIMATIONS.items()}
        for name, approximate in {**approximations, "rollout": behavior}.items():
            metrics |= _values(name, approximate, behavior, current, mask)
            metrics |= _errors(name, approximate, truth, behavior, current, mask)
    return metrics


def _values(
    name: str, approximate: torch.Tensor, behavior: torch.Tensor, current: torch.Tensor, mask: torch.Tensor
) -> Metrics:
    return {
        f"{PREFIX}{name}/approx_logp": Metric.over(approximate, mask),
        f"{PREFIX}{name}/behave_imp_weight": Metric.over(bounded_exp(approximate - behavior), mask),
        f"{PREFIX}{name}/importance_weight": Metric.over(bounded_exp(current - approximate), mask),
    }


def _errors(
    name: str,
    approximate: torch.Tensor,
    truth: torch.Tensor,
    behavior: torch.Tensor,
    current: torch.Tensor,
    mask: torch.Tensor,
) -> Metrics:
    weight, true_weight = bounded_exp(approximate - behavior), bounded_exp(truth - behavior)
    ratio, true_ratio = bounded_exp(current - approximate), bounded_exp(current - truth)
    values = {
        "abs_error": (approximate - truth).abs(),
        "rel_error": _relative(approximate, truth),
        "squared_error": (approximate - truth) ** 2,
        "behave_imp_weight_abs_error": (weight - true_weight).abs(),
        "behave_imp_weight_rel_error_": _relative(weight, true_weight),
        "importance_weight_abs_error_": (ratio - true_ratio).abs(),
        "importance_weight_rel_error_": _relative(ratio, true_ratio),
    }
    return {f"{PREFIX}{name}/{key}": Metric.over(value, mask) for key, value in values.items()}


def _relative(approximate: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return PERCENT * (approximate - truth).abs() / (truth.abs() + RELATIVE_ERROR_FLOOR)
