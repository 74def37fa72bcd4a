"""From the reward that the function gave to the one that is learnt from."""

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
