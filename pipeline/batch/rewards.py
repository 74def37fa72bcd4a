"""Rewards relative to their group or batch: the baseline is subtracted, then the spread divided out.

Groups are the samples that really came back with a reward: a group that lost some is normalized over what is
left. A group of one has nothing to be compared with: under a group baseline its centred reward is 0.

From the reward that the function gave to the one that is learnt from.
"""

from collections.abc import Sequence
from math import fsum

from configs.actor_schema import AdvantageConfig


def scaled_reward(reward: float, config: AdvantageConfig) -> float:
    """(reward + bias) · scale, clipped to ± `reward_clip` where that is set."""
    scaled = (reward + config.reward_bias) * config.reward_scale
    if config.reward_clip is None:
        return scaled
    return max(-config.reward_clip, min(config.reward_clip, scaled))


def overlong_penalty(num_tokens: int, config: AdvantageConfig, max_new_tokens: int) -> float:
    """0 up to the buffer before `max_new_tokens`, then falling linearly to −`overlong_penalty` at its end.

    Source: DAPO, arXiv:2503.14476, eq. 13.
    """
    if config.overlong_buffer == 0:
        return 0.0
    excess = num_tokens - (max_new_tokens - config.overlong_buffer)
    return -config.overlong_penalty * min(1.0, max(0, excess) / config.overlong_buffer)


def shaped_reward(reward: float, num_tokens: int, config: AdvantageConfig, max_new_tokens: int) -> float:
    """Scaled reward plus overlong penalty; `num_tokens` counts the tokens that the policy sampled."""
    return scaled_reward(reward, config) + overlong_penalty(num_tokens, config, max_new_tokens)


Rewards = Sequence[Sequence[float]]  # [group][sample], groups of any size

# Below this fraction of the largest reward a spread is rounding, not signal; dividing by it would turn
# equal rewards into advantages of any size.
SPREAD_FLOOR = 1e-6


def mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else 0.0


def spread(values: Sequence[float]) -> float:
    """Standard deviation with n − 1 (Bessel); 0 for fewer than two values or differences that are rounding."""
    if len(values) < 2:
        return 0.0
    center = mean(values)
    deviation = float((fsum((v - center) ** 2 for v in values) / (len(values) - 1)) ** 0.5)
    return deviation if deviation > SPREAD_FLOOR * max(abs(v) for v in values) else 0.0


def normalized_rewards(rewards: Rewards, config: AdvantageConfig) -> list[list[float]]:
    """One advantage a sample: (reward − baseline) ÷ spread. Same shape as `rewards`.

    Where nothing varies the spread is 0 and nothing is divided.

    Raises:
        ValueError: an unknown baseline or scale.
    """
    centred = _centred(rewards, config.baseline)
    match config.scale:
        case "none":
            return centred
        case "group_std":
            return [_divided(group, spread(raw)) for group, raw in zip(centred, rewards, strict=True)]
        case "batch_std":
            deviation = spread([v for group in centred for v in group])
            return [_divided(group, deviation) for group in centred]
    raise ValueError(f"actor.advantage.scale is {config.scale!r}: choose group_std, batch_std or none")


def _centred(rewards: Rewards, baseline: str) -> list[list[float]]:
    match baseline:
        case "none":
            return [list(group) for group in rewards]
        case "group_mean":
            return [_minus_mean(group) for group in rewards]
        case "leave_one_out":
            return [_leave_one_out(group) for group in rewards]
        case "batch_mean":
            centred = iter(_minus_mean([v for group in rewards for v in group]))
            return [[next(centred) for _ in group] for group in rewards]
    raise ValueError(f"actor.advantage.baseline is {baseline!r}: choose group_mean, leave_one_out, batch_mean or none")


def _minus_mean(values: Sequence[float]) -> list[float]:
    """Each value minus the mean of all; exactly 0 where they differ by rounding only."""
    if spread(values) == 0:
        return [0.0] * len(values)
    center = mean(values)
    return [v - center for v in values]


def _leave_one_out(group: Sequence[float]) -> list[float]:
    """Each reward minus the mean of the others (RLOO, arXiv:2402.14740)."""
    n = len(group)
    return [v * n / (n - 1) for v in _minus_mean(group)] if n > 1 else [0.0] * n


def _divided(values: Sequence[float], deviation: float) -> list[float]:
    return [v / deviation for v in values] if deviation > 0 else list(values)
