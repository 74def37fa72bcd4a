"""How far the trainer's proximal policy lies from what the sampler recorded, by lag.

δ = proximal_logprobs − behavior_logprobs; w = e^δ. Lag 0 measures the engine alone, lag ≥ 1 engine plus
staleness, over sequences that lived under one version. Tokens sampled after an update within their own
sequence stand over a cache of older keys and values: a bucket of their own, which no clean forward reproduces.
"""

import torch

from actor.batch import TokenBatch
from actor.metrics import Metric, Metrics
from actor.ratios import LOG_RATIO_LIMIT, floored

PREFIX = "mismatch/"

# Keeps the relative difference of a token that is certain (logprob 0) a number.
RELATIVE_DIFF_FLOOR = 1e-8


def mismatch_metrics(tokens: TokenBatch, proximal_logprobs: torch.Tensor, version: int) -> Metrics:
    """`mismatch/…` overall, `mismatch/lag_{k}/…` and `mismatch/stale_kv/…`.

    `kl_k1`, `kl_k3` estimate KL(behavior ‖ proximal) on the behavior policy's own samples: −δ and e^δ − 1 − δ.
    `kl_k1_reverse`, `kl_k3_reverse` estimate KL(proximal ‖ behavior) on the same samples, weighed by w: w·δ and
    1 − w + w·δ. The two directions tell rare tokens that explode in one of them from a real difference.

    Args:
        tokens: the micro-batch.
        proximal_logprobs: [T] of a forward at version v (in minibatch 0 the training forward itself).
        version: v.
    """
    buckets = {PREFIX: tokens.mask}
    clean, stale = _lives(tokens)
    lags = version - tokens.versions
    for lag in lags[clean].unique().tolist():
        buckets[f"{PREFIX}lag_{lag}/"] = clean & (lags == lag)
    if bool(stale.any()):
        buckets[f"{PREFIX}stale_kv/"] = stale
    metrics: Metrics = {}
    for prefix, mask in buckets.items():
        metrics |= _bucket(prefix, tokens, proximal_logprobs, mask)
    return metrics


def version_stats(tokens: TokenBatch, version: int, minibatch: int, num_minibatches: int) -> Metrics:
    """`version_stats/…` and `rl/lag` over the response tokens: which versions meet in this update.

    Args:
        tokens: the micro-batch.
        version: v. minibatch, num_minibatches: i and n; the current policy is at v + i/n.
    """
    lag = version - tokens.versions

    def constant(value: float) -> torch.Tensor:
        return torch.full_like(tokens.versions, value, dtype=torch.float64)

    return {
        "version_stats/behavior_version": Metric.over(tokens.versions, tokens.mask, extremes=True),
        "version_stats/proximal_version": Metric.over(constant(version), tokens.mask),
        "version_stats/current_version": Metric.over(constant(version + minibatch / num_minibatches), tokens.mask),
        "version_stats/lag": Metric.over(lag, tokens.mask, extremes=True),
        "rl/lag": Metric.over(lag, tokens.mask, extremes=True),
    }


def _lives(tokens: TokenBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """[T] bool each: tokens of sequences that saw one version, and tokens sampled after an update in theirs."""
    unset = torch.iinfo(torch.int64).max
    versions = tokens.versions.long()
    first = versions.new_full((tokens.num_sequences,), unset)
    last = versions.new_full((tokens.num_sequences,), -unset)
    inside = tokens.mask
    first = first.scatter_reduce(0, tokens.sequence[inside], versions[inside], "amin")
    last = last.scatter_reduce(0, tokens.sequence[inside], versions[inside], "amax")
    one_version = (first == last)[tokens.sequence]
    return inside & one_version, inside & (versions > first[tokens.sequence])


def _bucket(prefix: str, tokens: TokenBatch, proximal_logprobs: torch.Tensor, mask: torch.Tensor) -> Metrics:
    behavior = floored(tokens.behavior_logprobs.detach().double(), mask)
    proximal = floored(proximal_logprobs.detach().double(), mask)
    delta = proximal - behavior
    bounded = delta.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    weight = bounded.exp()
    prob_behavior, prob_proximal = behavior.exp(), proximal.exp()
    values = {
        "kl_k1": -delta,
        "kl_k3": bounded.expm1() - delta,
        "kl_k1_reverse": weight * delta,
        "kl_k3_reverse": weight * delta - bounded.expm1(),
        "abs_logp_diff": delta.abs(),
        "rel_logp_diff": delta.abs() / (behavior.abs() + RELATIVE_DIFF_FLOOR),
        "prob_diff_mean": (prob_proximal - prob_behavior).abs(),
        "chi2": weight**2 - 1,
    }
    metrics = {prefix + name: Metric.over(value, mask) for name, value in values.items()}
    metrics[f"{prefix}prob_diff_max"] = Metric.over(values["prob_diff_mean"], mask, figure="max")
    metrics[f"{prefix}prob_corr"] = Metric.correlation(prob_proximal, prob_behavior, mask)
    metrics[f"{prefix}ess"] = Metric.ess(weight, mask)
    return metrics
