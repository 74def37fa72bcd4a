"""Generalized advantage estimation over token-level rewards, without a value function.

Source: Schulman et al. 2015, arXiv:1506.02438, eq. 16 with V = 0, where δ_t = r_t.
"""

from collections.abc import Sequence


def token_advantages(rewards: Sequence[float], mask: Sequence[int], gamma: float, lam: float) -> tuple[float, ...]:
    """A_t = Σ_{l ≥ 0} (γλ)^l · r_{t+l} over the tokens that the policy sampled. [R], [R] → [R].

    Tokens of the environment (mask 0) are no steps of the policy: they are passed over without discount and
    get 0; a reward that sits on one of them counts for the policy's tokens before it.
    """
    assert len(rewards) == len(mask)
    advantages = [0.0] * len(rewards)
    following = 0.0  # advantage of the next policy token
    pending = 0.0  # rewards between this policy token and the next
    for t in range(len(rewards) - 1, -1, -1):
        if mask[t]:
            following = rewards[t] + pending + gamma * lam * following
            advantages[t] = following
            pending = 0.0
        else:
            pending += rewards[t]
    return tuple(advantages)
