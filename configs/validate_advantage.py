"""Checks of rewards and advantages."""

from configs.errors import refused
from configs.schema import Config


def check_group_of_one(config: Config) -> None:
    a = config.actor.advantage
    if config.rollout.sampling.n_samples > 1:
        return
    needing = {
        "baseline": a.baseline in ("group_mean", "leave_one_out"),
        "scale": a.scale == "group_std",
        "zero_variance": a.zero_variance != "keep",
    }
    remedies = {"baseline": "none", "scale": "batch_std or none", "zero_variance": "keep"}
    for name, needs in needing.items():
        if needs:
            raise refused(
                "rollout.sampling.n_samples",
                1,
                f"makes every advantage 0 under actor.advantage.{name}={getattr(a, name)}",
                f"sample 2 or more, or set actor.advantage.{name} to {remedies[name]}",
            )


def check_overlong_buffer(config: Config) -> None:
    buffer, limit = config.actor.advantage.overlong_buffer, config.rollout.sampling.max_new_tokens
    if buffer >= limit:
        raise refused(
            "actor.advantage.overlong_buffer",
            buffer,
            f"is not below rollout.sampling.max_new_tokens={limit}, so that every completion would be penalized",
            "lower it",
        )


def check_overlong_penalty(config: Config) -> None:
    a = config.actor.advantage
    if a.overlong_buffer and a.overlong_penalty == 0:
        raise refused(
            "actor.advantage.overlong_penalty", 0.0, "makes overlong_buffer do nothing", "raise it or drop the buffer"
        )


ADVANTAGE_CHECKS = (check_group_of_one, check_overlong_buffer, check_overlong_penalty)
