"""The lm_head of the trained policy: float32 logits of the wanted rows, turned into logprobs."""

import torch
from torch import nn

from actor.logprobs import KeptTokens, token_logprobs


class LogprobHead(nn.Module):
    """Takes the place of a model's lm_head, owning the very same (possibly tied) parameters.

    Because the parameters belong to this module and are used inside its `forward`, parameter
    sharding gathers them there and frees them afterwards, as for any other layer.
    """

    def __init__(self, lm_head: nn.Linear, chunk_tokens: int) -> None:
        super().__init__()
        self.weight = lm_head.weight
        self.bias = lm_head.bias
        self.chunk_tokens = chunk_tokens

    def forward(
        self,
        hidden: torch.Tensor,
        targets: torch.Tensor,
        temperature: float,
        want_entropy: bool,
        kept: KeptTokens | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See `actor.logprobs.token_logprobs`: hidden [T, D], targets [T] → logprobs [T], entropy [T] or None."""
        return token_logprobs(
            hidden,
            self.weight,
            self.bias,
            targets,
            temperature=temperature,
            chunk_tokens=self.chunk_tokens,
            want_entropy=want_entropy,
            kept=kept,
        )
