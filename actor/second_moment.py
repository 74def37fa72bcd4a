"""M2PO's filter: drop the tokens that the sampling policy saw most differently, until the second moment fits.

Source: Zheng et al. 2025, "Prosperity before Collapse", arXiv:2510.01161. The moment is a mean over the whole
minibatch, so the caller gathers the log-ratios (proximal − behavior) of all micro-batches and ranks first.
"""

import torch


def second_moment_cut(log_ratios: torch.Tensor, threshold: float) -> torch.Tensor:
    """The largest |log-ratio| that may stay so that the mean square of what stays is at most `threshold`.

    Args:
        log_ratios: [N] proximal − behavior of every response token of the minibatch, in any order.
        threshold: `actor.m2_threshold`, > 0.

    Returns:
        [] in the dtype of `log_ratios`: keep where |log-ratio| ≤ it; negative when nothing may stay.

    Raises:
        ValueError: a threshold that is not positive.
    """
    if threshold <= 0:
        raise ValueError(f"actor.m2_threshold is {threshold}: it must be > 0 (0.04 is the published value)")
    size = log_ratios.detach().abs().sort().values
    number = torch.arange(1, size.numel() + 1, device=size.device, dtype=torch.float64)
    running_mean = (size.double() ** 2).cumsum(0) / number
    # Equal values go together: a value stays only if the mean with all its equals still fits.
    last_of_value = torch.ones_like(size, dtype=torch.bool)
    last_of_value[:-1] = size[1:] > size[:-1]
    fits = (running_mean <= threshold) & last_of_value
    nothing = size.new_full((1,), -1.0)
    return torch.cat([nothing, torch.where(fits, size, nothing)]).max()


def second_moment_mask(log_ratios: torch.Tensor, cut: torch.Tensor) -> torch.Tensor:
    """Tokens that stay: |log-ratio| ≤ cut. [T], [] → [T] bool."""
    return log_ratios.detach().abs() <= cut
