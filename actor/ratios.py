"""Probability ratios: of the policy that learns (with gradient) and of the policy that sampled (without).

The policy ratio is taken against the *centre* of the trust region: the proximal policy in the decoupled
loss, the behavior policy in standard PPO. The behavior weight never mixes with it.
"""

import torch

from actor.batch import TokenBatch
from actor.sequence_sums import sequence_mean, sequence_sum

# exp(±20) = 5e8 and 2e-9: no ratio beyond means anything to a clipped objective, while the product of two
# such factors, its square and its gradient stay far inside float32. Beyond the limit the gradient is 0.
LOG_RATIO_LIMIT = 20.0

# In place of −inf, the log-probability of a token that a policy excludes: far below anything a softmax
# in float32 returns for a token that was sampled, and finite, so that −inf − (−inf) does not arise.
LOGPROB_FLOOR = -1000.0


def bounded_exp(log_ratio: torch.Tensor) -> torch.Tensor:
    """exp of `log_ratio` [any shape] clamped to ±`LOG_RATIO_LIMIT`."""
    return log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def floored(logprobs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`logprobs` [T] with −inf raised to `LOGPROB_FLOOR` and 0 outside `mask` [T].

    Both replaced kinds have zero gradient, whatever the value was.
    """
    assert logprobs.shape == mask.shape
    # A NaN outside the mask would survive `clamp` and turn 0·NaN in the backward pass into NaN.
    inside = torch.where(mask, logprobs, torch.zeros_like(logprobs))
    return inside.clamp(min=LOGPROB_FLOOR)


def ppo_ratio(logprobs: torch.Tensor, center_logprobs: torch.Tensor) -> torch.Tensor:
    """PPO's token ratio r_t = exp(logprobs_t − center_t). All [T].

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 6.
    """
    assert logprobs.shape == center_logprobs.shape
    return bounded_exp(logprobs - center_logprobs.detach())


def gspo_ratio(logprobs: torch.Tensor, center_logprobs: torch.Tensor, tokens: TokenBatch) -> torch.Tensor:
    """GSPO's sequence ratio s = exp(mean_t(logprobs_t − center_t)). [T], [T] → [S].

    Source: Zheng et al. 2025, arXiv:2507.18071, eq. 7.
    """
    assert logprobs.shape == center_logprobs.shape
    return bounded_exp(sequence_mean(logprobs - center_logprobs.detach(), tokens))


def token_behavior_weight(proximal_logprobs: torch.Tensor, behavior_logprobs: torch.Tensor) -> torch.Tensor:
    """w_t = exp(proximal_t − behavior_t), without gradient. All [T].

    Source: Hilton et al. 2021, arXiv:2110.00641, eq. 5.
    """
    assert proximal_logprobs.shape == behavior_logprobs.shape
    return bounded_exp((proximal_logprobs - behavior_logprobs).detach())


def sequence_behavior_weight(
    proximal_logprobs: torch.Tensor, behavior_logprobs: torch.Tensor, tokens: TokenBatch
) -> torch.Tensor:
    """Product of w_t over each sequence, without gradient: exp(Σ_t(proximal_t − behavior_t)). [T], [T] → [S]."""
    assert proximal_logprobs.shape == behavior_logprobs.shape
    return bounded_exp(sequence_sum((proximal_logprobs - behavior_logprobs).detach(), tokens))


def geometric_behavior_weight(
    proximal_logprobs: torch.Tensor, behavior_logprobs: torch.Tensor, tokens: TokenBatch
) -> torch.Tensor:
    """Geometric mean of w_t over each sequence, without gradient. [T], [T] → [S]."""
    assert proximal_logprobs.shape == behavior_logprobs.shape
    return bounded_exp(sequence_mean((proximal_logprobs - behavior_logprobs).detach(), tokens))
