"""What a model computes that goes on with new weights over a cache of keys and values from the old ones."""

from collections.abc import Sequence
from typing import Any

import torch


@torch.no_grad()
def logprobs_across_update(
    old: Any, new: Any, prompt: Sequence[int], response: Sequence[int], boundary: int, temperature: float
) -> list[float]:
    """Log-probabilities of `response`, of which tokens from `boundary` on were sampled by `new`.

    At that boundary the newest token is not in the cache yet: it is the first that `new` reads, and all before it
    are keys and values of `old`.
    """
    ids = torch.tensor([[*prompt, *response]])
    split = len(prompt) + boundary - 1
    before = old(ids[:, :split], use_cache=True)
    after = new(ids[:, split:], past_key_values=before.past_key_values)
    logits = torch.cat([before.logits[0], after.logits[0]])[len(prompt) - 1 : -1].float() / temperature
    return [float(row.log_softmax(-1)[t]) for row, t in zip(logits, response, strict=True)]
