"""The check that no NaN reaches a loss unseen."""

import torch


def require_scores(name: str, logprobs: torch.Tensor, mask: torch.Tensor) -> None:
    """Response tokens must carry log-probabilities: finite, or −inf for a token that the policy excludes.

    Args:
        name: what the values are, for the message.
        logprobs: [T].
        mask: [T] bool; tokens outside it (prompt, environment, padding) may hold anything.

    Raises:
        ValueError: a NaN or +inf under the mask.
    """
    bad = mask & (logprobs.isnan() | logprobs.isposinf())
    if bool(bad.any()):
        first = int(bad.nonzero()[0])
        raise ValueError(
            f"{name}: {int(bad.sum())} of {int(mask.sum())} response tokens are NaN or +inf, the first at index "
            f"{first}. The weights or the logits hold no numbers any more: lower actor.optimizer.lr, or resume from "
            f"an earlier checkpoint."
        )
