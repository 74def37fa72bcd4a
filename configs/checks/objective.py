"""Checks of the objective: what it ignores, the proximal policy, correction, KL and aggregation.

Checks of rewards and advantages.
"""

from configs.checks.objective_keys import IGNORED_BY, REQUIREMENTS, Requirement
from configs.errors import ConfigError, refused, shown
from configs.keys import leaves, value_of
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


def _is_set(config: Config, key: str) -> bool:
    return bool(value_of(config, f"actor.{key}") != leaves()[f"actor.{key}"].default)


def check_ignored_keys(config: Config) -> None:
    """A setting that the objective has no place for is an error, not a warning."""
    objective = config.actor.objective
    for key, ignoring in IGNORED_BY.items():
        if objective in ignoring and _is_set(config, key):
            default = shown(leaves()[f"actor.{key}"].default)
            raise refused(
                f"actor.{key}",
                value_of(config, f"actor.{key}"),
                f"is ignored by actor.objective={objective}",
                f"leave it at {default} or use another objective",
            )


def check_requirements(config: Config) -> None:
    """A setting that another setting switches off is an error."""
    for requirement in REQUIREMENTS:
        if config.actor.objective in requirement.objectives and _is_set(config, requirement.key):
            _check_requirement(config, requirement)


def _check_requirement(config: Config, requirement: Requirement) -> None:
    needed, key = f"actor.{requirement.needs}", f"actor.{requirement.key}"
    value = value_of(config, needed)
    holds = value in requirement.values if requirement.values else _is_set(config, requirement.needs)
    if not holds:
        wanted = f"{needed}={' or '.join(shown(v) for v in requirement.values)}" if requirement.values else needed
        raise refused(
            key,
            value_of(config, key),
            f"has no effect under {needed}={shown(value)}: {requirement.reason}",
            f"set {wanted}, or leave {key} at {shown(leaves()[key].default)}",
        )


def check_correction_bounds(config: Config) -> None:
    c, key = config.actor.behavior_correction, "actor.behavior_correction"
    if c.mode == "truncate" and c.upper is None:
        raise refused(f"{key}.mode", c.mode, f"needs {key}.upper", "set it, for instance to 2")
    if c.mode == "mask" and c.lower is None and c.upper is None:
        raise refused(f"{key}.mode", c.mode, f"needs {key}.lower or {key}.upper", "set one or both")
    if c.lower is not None and c.upper is not None and c.lower >= c.upper:
        raise refused(f"{key}.lower", c.lower, f"is not below {key}.upper={c.upper}", "swap or change them")


def check_aggregation_constant(config: Config) -> None:
    a = config.actor
    if a.loss_agg_mode == "token-sum-const" and a.loss_agg_const is None:
        raise refused(
            "actor.loss_agg_mode",
            a.loss_agg_mode,
            "needs actor.loss_agg_const",
            f"set it, for instance to rollout.sampling.max_new_tokens={config.rollout.sampling.max_new_tokens}",
        )


def check_kl_in_reward(config: Config) -> None:
    kl = config.actor.kl
    if kl.coef and kl.place == "reward" and kl.type == "k3+":
        raise refused(
            "actor.kl.type", kl.type, "changes the gradient only, which a reward has not", "use k3 or kl.place=loss"
        )


def check_reference_reset(config: Config) -> None:
    every, total = config.actor.kl.reset_ref_every, config.train.total_steps
    if every and every >= total:
        raise ConfigError(
            f"actor.kl.reset_ref_every={every} never happens within train.total_steps={total}; "
            "lower it, or use 0 to keep the reference.",
            "actor.kl.reset_ref_every",
        )


OBJECTIVE_CHECKS = (
    check_ignored_keys,
    check_requirements,
    check_correction_bounds,
    check_aggregation_constant,
    check_kl_in_reward,
    check_reference_reset,
)
