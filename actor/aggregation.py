"""How token losses become one number. Each micro-batch contributes its share: shares add up to the loss.

The caller passes the counts of the *global* minibatch, so that neither micro-batching nor the number of
ranks changes the loss. `losses` is [T]; tokens outside the mask contribute nothing and have no gradient.
"""

import torch

from actor.batch import Denominators, TokenBatch
from actor.sequence_sums import sequence_mean, sequence_sum
from configs.actor_schema import ActorConfig


def token_mean(losses: torch.Tensor, tokens: TokenBatch, denominators: Denominators) -> torch.Tensor:
    """Σ_t losses_t / number of tokens → []. Every token weighs the same (DAPO, arXiv:2503.14476, eq. 8)."""
    return sequence_sum(losses, tokens).sum() / denominators.num_tokens


def sequence_mean_token_mean(losses: torch.Tensor, tokens: TokenBatch, denominators: Denominators) -> torch.Tensor:
    """Mean over sequences of the mean over tokens → []. Every sequence weighs the same (GRPO, arXiv:2402.03300)."""
    return sequence_mean(losses, tokens).sum() / denominators.num_sequences


def sequence_mean_token_sum(losses: torch.Tensor, tokens: TokenBatch, denominators: Denominators) -> torch.Tensor:
    """Mean over sequences of the sum over tokens → []: the policy gradient of whole-sequence rewards."""
    return sequence_sum(losses, tokens).sum() / denominators.num_sequences


def token_sum_const(
    losses: torch.Tensor, tokens: TokenBatch, denominators: Denominators, constant: float
) -> torch.Tensor:
    """Mean over sequences of the sum over tokens ÷ `constant` → [] (Dr. GRPO, arXiv:2503.20783)."""
    return sequence_sum(losses, tokens).sum() / (denominators.num_sequences * constant)


def aggregate(
    losses: torch.Tensor, tokens: TokenBatch, denominators: Denominators, config: ActorConfig
) -> torch.Tensor:
    """This micro-batch's share of the loss, by `actor.loss_agg_mode`. [T] → [].

    Raises:
        ValueError: `token-sum-const` without `actor.loss_agg_const`, or an unknown mode.
    """
    match config.loss_agg_mode:
        case "token-mean":
            return token_mean(losses, tokens, denominators)
        case "seq-mean-token-mean":
            return sequence_mean_token_mean(losses, tokens, denominators)
        case "seq-mean-token-sum":
            return sequence_mean_token_sum(losses, tokens, denominators)
        case "token-sum-const":
            if config.loss_agg_const is None or config.loss_agg_const <= 0:
                raise ValueError(
                    f"actor.loss_agg_const is {config.loss_agg_const}: actor.loss_agg_mode=token-sum-const divides by "
                    "it; set it to a positive number, for instance rollout.sampling.max_new_tokens"
                )
            return token_sum_const(losses, tokens, denominators, config.loss_agg_const)
    raise ValueError(f"actor.loss_agg_mode is {config.loss_agg_mode!r}: no such aggregation")
