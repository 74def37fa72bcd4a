"""From log-probabilities to the loss of a micro-batch.

loss = aggregate(w · objective) − entropy_coef · aggregate(entropy) + kl.coef · aggregate(KL)

w is the behavior weight (1 in standard PPO). Every term is this micro-batch's share: the sum over
micro-batches and ranks is the loss of the minibatch.
"""

from dataclasses import dataclass

import torch

from actor.aggregation import aggregate
from actor.batch import Denominators, TokenBatch
from actor.correction import BehaviorWeights, behavior_weights
from actor.finite import require_scores
from actor.kl import kl_estimate
from actor.metrics import Metrics
from actor.objectives.cispo import cispo_losses
from actor.objectives.gspo import gspo_losses
from actor.objectives.ppo import ppo_losses
from actor.objectives.reinforce import reinforce_losses
from actor.objectives.sapo import sapo_losses
from actor.objectives.token_losses import TokenLosses
from actor.ratios import floored
from actor.update_metrics import LossTerms, update_metrics
from configs.actor_schema import ActorConfig


@dataclass(frozen=True)
class _Policies:
    """The log-probabilities of a micro-batch, all [T]: finite everywhere, 0 outside the mask."""

    logprobs: torch.Tensor
    proximal: torch.Tensor
    behavior: torch.Tensor
    center: torch.Tensor  # of the trust region
    ref: torch.Tensor | None


def clip_range(config: ActorConfig) -> tuple[float, float]:
    """ε_low and ε_high; without `eps_clip_higher` both are `eps_clip`."""
    return config.eps_clip, config.eps_clip if config.eps_clip_higher is None else config.eps_clip_higher


def update_loss(
    tokens: TokenBatch,
    logprobs: torch.Tensor,
    proximal_logprobs: torch.Tensor | None,
    ref_logprobs: torch.Tensor | None,
    entropy: torch.Tensor | None,
    denominators: Denominators,
    config: ActorConfig,
    keep: torch.Tensor | None = None,
) -> tuple[torch.Tensor, Metrics]:
    """This micro-batch's share of the loss, and its metrics.

    Args:
        tokens: T response tokens of S whole sequences; T may be 0.
        logprobs: [T] of the current policy, with gradient.
        proximal_logprobs: [T] from `actor.proximal`; may be None without `use_decoupled_loss`.
        ref_logprobs: [T] of the reference; needed when the KL term is in the loss.
        entropy: [T] of the current policy's distributions; needed with `entropy_coef`, else for the metric.
        denominators: counts of the global minibatch, before any filter.
        config: the objective and its settings.
        keep: [T] bool from `actor.second_moment`, or None; dropped tokens stay in the denominators.

    Returns:
        The loss [] and the metrics.

    Raises:
        ValueError: a NaN under the mask, or a setting outside its list.
    """
    assert keep is None or config.objective != "gspo", "GSPO has no tokens to drop: it has one ratio per sequence"
    policies = _policies(tokens, logprobs, proximal_logprobs, ref_logprobs, config)
    weights = _weights(tokens, policies, config)
    losses = _token_losses(tokens, policies, config)
    weight = torch.ones_like(losses.ratio) if weights is None else weights.tokens
    if keep is not None:
        weight = torch.where(keep, weight, torch.zeros_like(weight))
    policy_loss = aggregate(weight * losses.loss, tokens, denominators, config)
    kl_loss = _kl_loss(tokens, policies, denominators, config)
    loss = policy_loss + _entropy_loss(tokens, entropy, denominators, config)
    if kl_loss is not None:
        loss = loss + config.kl.coef * kl_loss
    terms = LossTerms(
        losses=losses,
        weights=weights,
        policy_loss=policy_loss,
        kl_loss=kl_loss,
        logprobs=policies.logprobs.detach(),
        proximal=policies.proximal if config.use_decoupled_loss else None,
        center=policies.center,
        behavior=policies.behavior,
        ref=policies.ref,
        entropy=entropy,
        keep=keep,
    )
    return loss, update_metrics(tokens, terms, denominators, config.objective == "gspo", clip_range(config))


def _kl_loss(
    tokens: TokenBatch, policies: _Policies, denominators: Denominators, config: ActorConfig
) -> torch.Tensor | None:
    """Before its coefficient; None where the loss has no KL term."""
    if config.kl.coef == 0 or config.kl.place != "loss":
        return None
    if policies.ref is None:
        raise ValueError(f"actor.kl.coef is {config.kl.coef} in the loss but there are no ref_logprobs")
    return aggregate(kl_estimate(config.kl.type, policies.logprobs, policies.ref), tokens, denominators, config)


def _entropy_loss(
    tokens: TokenBatch, entropy: torch.Tensor | None, denominators: Denominators, config: ActorConfig
) -> torch.Tensor | float:
    if config.entropy_coef == 0:
        return 0.0
    if entropy is None:
        raise ValueError(f"actor.entropy_coef is {config.entropy_coef} but no entropy was computed")
    require_scores("entropy", entropy, tokens.mask)
    return -config.entropy_coef * aggregate(entropy, tokens, denominators, config)


def _policies(
    tokens: TokenBatch,
    logprobs: torch.Tensor,
    proximal_logprobs: torch.Tensor | None,
    ref_logprobs: torch.Tensor | None,
    config: ActorConfig,
) -> _Policies:
    assert logprobs.shape == tokens.mask.shape
    current = _clean("logprobs", logprobs, tokens, logprobs.dtype)
    behavior = _clean("behavior_logprobs", tokens.behavior_logprobs, tokens, current.dtype)
    ref = None if ref_logprobs is None else _clean("ref_logprobs", ref_logprobs, tokens, current.dtype)
    if config.use_decoupled_loss:
        assert proximal_logprobs is not None, "the decoupled loss needs proximal_logprobs"
        proximal = _clean("proximal_logprobs", proximal_logprobs.detach(), tokens, current.dtype)
        return _Policies(current, proximal, behavior, proximal, ref)
    if config.objective == "reinforce":
        # Without a proximal policy the whole weight current ÷ behavior is the behavior weight.
        return _Policies(current, current.detach(), behavior, current.detach(), ref)
    return _Policies(current, behavior, behavior, behavior, ref)


def _clean(name: str, logprobs: torch.Tensor, tokens: TokenBatch, dtype: torch.dtype) -> torch.Tensor:
    require_scores(name, logprobs, tokens.mask)
    return floored(logprobs.to(dtype), tokens.mask)


def _weights(tokens: TokenBatch, policies: _Policies, config: ActorConfig) -> BehaviorWeights | None:
    """None in standard PPO, where there is no behavior weight."""
    if not config.use_decoupled_loss and config.objective != "reinforce":
        return None
    level = "geometric" if config.objective == "gspo" else config.behavior_correction.level
    return behavior_weights(policies.proximal, policies.behavior, tokens, config.behavior_correction, level)


def _token_losses(tokens: TokenBatch, policies: _Policies, config: ActorConfig) -> TokenLosses:
    low, high = clip_range(config)
    advantages = torch.where(tokens.mask, tokens.advantages, torch.zeros_like(tokens.advantages))
    pair = (policies.logprobs, policies.center, advantages.to(policies.logprobs.dtype))
    match config.objective:
        case "ppo":
            return ppo_losses(*pair, low, high, config.c_clip)
        case "gspo":
            return gspo_losses(*pair, tokens, low, high)
        case "cispo":
            return cispo_losses(*pair, low, high)
        case "reinforce":
            return reinforce_losses(*pair)
        case "sapo":
            return sapo_losses(*pair, config.sapo_temperature_pos, config.sapo_temperature_neg)
    raise ValueError(f"actor.objective is {config.objective!r}: choose ppo, gspo, cispo, reinforce or sapo")
