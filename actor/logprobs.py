"""Log-probabilities and entropy of given tokens, from hidden states, without the full logits.

T response tokens, D hidden size, V vocabulary, C tokens of one chunk. Peak extra memory is C × V
floats (twice that while entropy is computed), forward and backward, however large T is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

# Logit of a token outside the kept set: exp() of it is 0, yet products with 0 stay finite.
_OUTSIDE = -1e30

CACHED_BYTES = 2 << 20  # of logits that stay in a core's cache from one pass over them to the next


@dataclass(frozen=True)
class KeptTokens:
    """The vocabulary entries that survived top-p/top-k at each token, flat and sorted by row."""

    ids: torch.Tensor  # [K] int64, vocabulary entries
    offsets: torch.Tensor  # [T+1] int64, token t keeps ids[offsets[t]:offsets[t+1]]

    @staticmethod
    def of(kept_token_ids: tuple[tuple[int, ...], ...], device: torch.device | str = "cpu") -> "KeptTokens":
        """From one tuple of vocabulary entries a token."""
        counts = torch.tensor([0, *(len(kept) for kept in kept_token_ids)])
        ids = torch.tensor([i for kept in kept_token_ids for i in kept], dtype=torch.int64)
        return KeptTokens(ids.to(device), counts.cumsum(0).to(device))

    def outside(self, start: int, stop: int, vocabulary: int) -> torch.Tensor:
        """[stop-start, V] bool, true where the sampler had removed the entry."""
        offsets = self.offsets[start : stop + 1]
        rows = torch.repeat_interleave(torch.arange(stop - start, device=offsets.device), offsets.diff())
        mask = torch.ones(stop - start, vocabulary, dtype=torch.bool, device=offsets.device)
        mask[rows, self.ids[offsets[0] : offsets[-1]]] = False
        return mask


def token_logprobs(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    *,
    temperature: float,
    chunk_tokens: int,
    want_entropy: bool,
    kept: KeptTokens | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """log softmax(z / temperature)[target] and the entropy of that distribution, z = hidden·weightᵀ + bias.

    hidden [T, D] is the state *before* each target, weight [V, D], bias [V] or None, targets [T].
    The product is computed in float32 whatever the inputs' type. With `kept`, the distribution is
    renormalized over the kept entries of each token, as a sampler that truncates does.
    Returns logprobs [T] float32 and entropy [T] float32, or None unless asked. Both are
    differentiable in hidden, weight and bias; the backward pass computes each chunk's logits again.
    """
    assert hidden.ndim == 2 and weight.ndim == 2 and targets.shape == hidden.shape[:1]
    options = _Options(temperature, chunk_tokens, want_entropy, kept)
    return _TokenLogprobs.apply(hidden, weight, bias, targets, options)


@dataclass(frozen=True)
class _Options:
    temperature: float
    chunk_tokens: int
    want_entropy: bool
    kept: KeptTokens | None


class _Logits:
    """Fills one reused buffer with the scaled float32 logits of a range of tokens."""

    def __init__(
        self, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, options: _Options
    ) -> None:
        self.hidden, self.options = hidden, options
        self.weight = weight.float()
        self.bias = None if bias is None else bias.float()
        self.chunk = max(1, min(options.chunk_tokens, hidden.shape[0]))
        self.buffer = torch.empty(self.chunk, weight.shape[0], dtype=torch.float32, device=hidden.device)

    def ranges(self) -> list[tuple[int, int]]:
        total = self.hidden.shape[0]
        return [(start, min(start + self.chunk, total)) for start in range(0, total, self.chunk)]

    def blocks(self, start: int, stop: int) -> Iterator[tuple[slice, torch.Tensor]]:
        """The logits of tokens start … stop−1 in blocks of few rows, which what follows may overwrite.

        A matrix product wants many rows at a time. The passes over its result that follow want few on a CPU: a whole
        chunk of a large vocabulary, 150 MB, would travel between memory and cache in each of them.
        """
        logits = self(start, stop)
        rows = logits.shape[0] if logits.is_cuda else max(1, CACHED_BYTES // (4 * logits.shape[1]))
        for first in range(0, logits.shape[0], rows):
            block = logits[first : first + rows]
            yield slice(start + first, start + first + block.shape[0]), block

    def __call__(self, start: int, stop: int) -> torch.Tensor:
        logits = self.buffer[: stop - start]
        torch.mm(self.hidden[start:stop].float(), self.weight.t(), out=logits)
        if self.bias is not None:
            logits.add_(self.bias)
        if self.options.temperature != 1.0:
            logits.div_(self.options.temperature)
        if self.options.kept is not None:
            logits.masked_fill_(self.options.kept.outside(start, stop, logits.shape[1]), _OUTSIDE)
        return logits


class _TokenLogprobs(torch.autograd.Function):
    """The chunked forward, and a backward that keeps only one number per token: log Σ exp(z)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        options: _Options,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        logits_of = _Logits(hidden, weight, bias, options)
        logprobs = torch.empty(targets.shape, dtype=torch.float32, device=hidden.device)
        normalizer, entropy = torch.empty_like(logprobs), torch.empty_like(logprobs)
        for start, stop in logits_of.ranges():
            for part, z in logits_of.blocks(start, stop):
                chosen = z.gather(1, targets[part, None]).squeeze(1)
                largest = z.amax(dim=1)
                z.sub_(largest[:, None])
                if options.want_entropy:
                    p = z.exp()
                    total = p.sum(dim=1)
                    mean_z = torch.bmm(p[:, None, :], z[:, :, None]).flatten() / total
                    entropy[part] = total.log() - mean_z
                else:
                    total = z.exp_().sum(dim=1)
                log_total = total.log()
                logprobs[part] = (chosen - largest) - log_total
                normalizer[part] = largest + log_total
        ctx.save_for_backward(hidden, weight, bias, targets, normalizer, entropy if options.want_entropy else None)
        ctx.options = options
        ctx.set_materialize_grads(False)
        return logprobs, entropy if options.want_entropy else None

    @staticmethod
    def backward(
        ctx: Any, grad_logprobs: torch.Tensor | None, grad_entropy: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, bias, targets, normalizer, entropy = ctx.saved_tensors
        options: _Options = ctx.options
        logits_of = _Logits(hidden, weight, bias, options)
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if needs_weight else None
        grad_bias = torch.zeros(weight.shape[0], dtype=torch.float32, device=weight.device) if needs_bias else None
        g = torch.zeros_like(normalizer) if grad_logprobs is None else grad_logprobs
        for start, stop in logits_of.ranges():
            for part, z in logits_of.blocks(start, stop):
                log_p = z.sub_(normalizer[part, None])
                if grad_entropy is None:
                    log_p.exp_().mul_(-g[part, None])
                else:  # dH/dz_i = -p_i (log p_i + H)
                    p = log_p.exp()
                    log_p.add_(entropy[part, None]).mul_(grad_entropy[part, None]).add_(g[part, None])
                    log_p.mul_(p).neg_()
            chunk, grad_z = slice(start, stop), logits_of.buffer[: stop - start]
            grad_z.scatter_add_(1, targets[chunk, None], g[chunk, None])
            if options.temperature != 1.0:
                grad_z.div_(options.temperature)
            if grad_hidden is not None:
                grad_hidden[chunk] = (grad_z @ logits_of.weight).to(hidden.dtype)
            if grad_weight is not None:
                grad_weight.addmm_(grad_z.t(), hidden[chunk].float())
            if grad_bias is not None:
                grad_bias.add_(grad_z.sum(dim=0))
        return grad_hidden, _cast(grad_weight, weight), _cast(grad_bias, bias), None, None


def _cast(gradient: torch.Tensor | None, parameter: torch.Tensor | None) -> torch.Tensor | None:
    return None if gradient is None or parameter is None else gradient.to(parameter.dtype)
