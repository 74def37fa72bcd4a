"""The behavior weight and its correction: what makes up for sampling by another policy or another engine.

The weight is exp(proximal − behavior) of a token, of a whole sequence (product) or as a sequence's geometric
mean. `truncate` moves it into the bounds, `mask` drops what lies outside; a veto drops sequences that hold a
token the proximal policy would hardly have sampled. Dropped tokens stay in every denominator.
"""

from dataclasses import dataclass

import torch

from actor.batch import TokenBatch
from actor.metrics import Metric, Metrics
from actor.ratios import geometric_behavior_weight, sequence_behavior_weight, token_behavior_weight
from actor.sequence_sums import sequence_count, sequence_sum
from configs.actor_schema import BehaviorCorrectionConfig

PREFIX = "behavior_correction/"


@dataclass(frozen=True)
class BehaviorWeights:
    """Weights without gradient, and the same for each unit (token or sequence) that one weight covers."""

    tokens: torch.Tensor  # [T] corrected; 0 where filtered or outside the mask
    units: torch.Tensor  # [T] or [S] before the correction
    unit_mask: torch.Tensor  # [T] or [S] bool
    metrics: Metrics


def truncate_weights(weights: torch.Tensor, lower: float | None, upper: float | None) -> torch.Tensor:
    """Weights moved to the nearer bound; null means no bound. Any shape."""
    return weights.clamp(-torch.inf if lower is None else lower, torch.inf if upper is None else upper)


def mask_weights(weights: torch.Tensor, lower: float | None, upper: float | None) -> torch.Tensor:
    """Weights with 0 for those outside the bounds; null means no bound. Any shape."""
    return torch.where(truncate_weights(weights, lower, upper) == weights, weights, torch.zeros_like(weights))


def vetoed_sequences(token_weights: torch.Tensor, tokens: TokenBatch, threshold: float) -> torch.Tensor:
    """Sequences that hold a token whose weight is below `threshold`. [T] → [S] bool."""
    return sequence_sum((token_weights < threshold).double(), tokens) > 0


def behavior_weights(
    proximal_logprobs: torch.Tensor,
    behavior_logprobs: torch.Tensor,
    tokens: TokenBatch,
    config: BehaviorCorrectionConfig,
    level: str,
) -> BehaviorWeights:
    """The weight of each token, corrected, with its effective sample size before and after.

    Args:
        proximal_logprobs, behavior_logprobs: [T], finite under the mask.
        tokens: the micro-batch.
        config: mode, bounds and veto.
        level: what one weight covers; `actor.behavior_correction.level`, or `geometric` for GSPO.

    Raises:
        ValueError: an unknown mode or level.
    """
    per_token = token_behavior_weight(proximal_logprobs, behavior_logprobs)
    match level:
        case "token":
            units = per_token
        case "sequence":
            units = sequence_behavior_weight(proximal_logprobs, behavior_logprobs, tokens)
        case "geometric":
            units = geometric_behavior_weight(proximal_logprobs, behavior_logprobs, tokens)
        case _:
            raise ValueError(f"actor.behavior_correction.level is {level!r}: choose token, sequence or geometric")
    unit_mask = tokens.mask if level == "token" else sequence_count(tokens) > 0
    corrected = _bounded(units, config)
    if config.token_veto is not None:
        vetoed = vetoed_sequences(per_token, tokens, config.token_veto)
        dropped = vetoed[tokens.sequence] if level == "token" else vetoed
        corrected = torch.where(dropped, torch.zeros_like(corrected), corrected)
    spread = corrected if level == "token" else corrected[tokens.sequence]
    spread = torch.where(tokens.mask, spread, torch.zeros_like(spread))
    metrics = _metrics(units, corrected, unit_mask, Metric.over((spread == 0).double(), tokens.mask))
    return BehaviorWeights(spread, units, unit_mask, metrics)


def _bounded(weights: torch.Tensor, config: BehaviorCorrectionConfig) -> torch.Tensor:
    match config.mode:
        case "none":
            return weights
        case "truncate":
            return truncate_weights(weights, config.lower, config.upper)
        case "mask":
            return mask_weights(weights, config.lower, config.upper)
    raise ValueError(f"actor.behavior_correction.mode is {config.mode!r}: choose none, truncate or mask")


def _metrics(before: torch.Tensor, after: torch.Tensor, unit_mask: torch.Tensor, filtered_fraction: Metric) -> Metrics:
    metrics: Metrics = {f"{PREFIX}filtered_fraction": filtered_fraction}
    for name, weights in (("before", before), ("after", after)):
        metrics[f"{PREFIX}ess_{name}"] = Metric.ess(weights, unit_mask)
        metrics[f"{PREFIX}max_weight_{name}"] = Metric.over(weights, unit_mask, figure="max")
        metrics[f"{PREFIX}chi2_{name}"] = Metric.over(weights.double() ** 2 - 1, unit_mask)
    return metrics
