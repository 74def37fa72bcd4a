"""The metrics of one micro-batch's update, under the field's names; over response tokens only."""

from dataclasses import dataclass

import torch

from actor.batch import Denominators, TokenBatch
from actor.correction import BehaviorWeights
from actor.kl import kl_k1, kl_k2, kl_k3
from actor.metrics import Metric, Metrics
from actor.objectives.token_losses import TokenLosses
from actor.ratios import gspo_ratio, ppo_ratio
from actor.sequence_sums import sequence_count

UPDATE = "ppo_actor/update/"


@dataclass(frozen=True)
class LossTerms:
    """What the loss was made of. Log-probabilities [T], detached, finite, 0 outside the mask."""

    losses: TokenLosses
    weights: BehaviorWeights | None  # None in standard PPO
    policy_loss: torch.Tensor  # []
    kl_loss: torch.Tensor | None  # [], before its coefficient
    logprobs: torch.Tensor
    proximal: torch.Tensor | None  # None in standard PPO
    center: torch.Tensor  # of the trust region: proximal, or behavior in standard PPO
    behavior: torch.Tensor
    ref: torch.Tensor | None
    entropy: torch.Tensor | None
    keep: torch.Tensor | None  # [T] bool, second-moment filter


@torch.no_grad()
def update_metrics(
    tokens: TokenBatch,
    terms: LossTerms,
    denominators: Denominators,
    per_sequence: bool,
    clip: tuple[float, float],
) -> Metrics:
    """`ppo_actor/update/…`, `rl/…`, `actor/kl…` and `behavior_correction/…`.

    Args:
        tokens: the micro-batch.
        terms: what `update_loss` computed.
        denominators: of the global minibatch: a loss of a minibatch is reported, not of a micro-batch.
        per_sequence: whether the objective's ratio is one per sequence; ratios, ESS and clip indicator follow it.
        clip: ε_low, ε_high.
    """
    mask = tokens.mask
    # The shares of a minibatch add up to 1, so that the merged mean is the mean loss of a minibatch.
    share = mask.sum().double() / denominators.num_tokens
    metrics: Metrics = {
        f"{UPDATE}actor_loss": Metric.share(terms.policy_loss, share),
        f"{UPDATE}importance_weight": Metric.over(terms.losses.ratio, mask, extremes=True),
        f"{UPDATE}approx_kl": Metric.over(terms.logprobs - terms.center, mask, extremes=True),
        f"{UPDATE}clip_ratio": Metric.over(terms.losses.clipped.double(), mask),
        f"{UPDATE}dual_clip_ratio": Metric.over(terms.losses.dual_clipped.double(), mask),
    }
    if terms.proximal is not None:
        drift = terms.proximal - terms.behavior
        metrics[f"{UPDATE}behave_approx_kl"] = Metric.over(drift, mask, extremes=True)
    if terms.weights is not None:
        metrics[f"{UPDATE}behave_imp_weight"] = Metric.over(terms.weights.tokens, mask, extremes=True)
        metrics |= terms.weights.metrics
    if terms.entropy is not None:
        metrics[f"{UPDATE}entropy"] = Metric.over(terms.entropy, mask)
        metrics["rl/entropy"] = metrics[f"{UPDATE}entropy"]
    if terms.keep is not None:
        metrics[f"{UPDATE}m2_kept_fraction"] = Metric.over(terms.keep.double(), mask)
    metrics |= _new_old(tokens, terms, per_sequence, clip)
    return metrics | _reference(tokens, terms, share)


def _new_old(tokens: TokenBatch, terms: LossTerms, per_sequence: bool, clip: tuple[float, float]) -> Metrics:
    """How the current policy ("new") stands to the one that sampled ("old"), staleness and engine included."""
    if per_sequence:
        ratio, mask = gspo_ratio(terms.logprobs, terms.behavior, tokens), sequence_count(tokens) > 0
    else:
        ratio, mask = ppo_ratio(terms.logprobs, terms.behavior), tokens.mask
    outside = (ratio < 1 - clip[0]) | (ratio > 1 + clip[1])
    return {
        "rl/clamp_log_ratio_new_old_indicator": Metric.over(outside.double(), mask),
        "rl/logprobs": Metric.over(terms.logprobs, tokens.mask),
        "rl/ratio_new_old": Metric.over(ratio, mask, extremes=True),
        # k3 of KL(behavior ‖ current): its samples are the behavior policy's, as these are.
        "rl/kl_new_old": Metric.over(kl_k3(terms.behavior, terms.logprobs), tokens.mask),
        "rl/ess": Metric.ess(ratio, mask),
    }


def _reference(tokens: TokenBatch, terms: LossTerms, share: torch.Tensor) -> Metrics:
    metrics: Metrics = {}
    if terms.kl_loss is not None:
        metrics["actor/kl_loss"] = Metric.share(terms.kl_loss, share)
    if terms.ref is not None:
        for name, estimator in (("kl_k1", kl_k1), ("kl_k2", kl_k2), ("kl_k3", kl_k3)):
            metrics[f"actor/{name}"] = Metric.over(estimator(terms.logprobs, terms.ref), tokens.mask)
    return metrics
