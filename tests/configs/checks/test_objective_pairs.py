"""Over all pairs of objective and setting: what an objective ignores is refused, what it uses is accepted."""

import itertools

import pytest

from configs.checks.objective_keys import IGNORED_BY, OBJECTIVES, REQUIREMENTS, Requirement
from configs.checks.ranges import RANGES
from configs.errors import ConfigError
from configs.keys import leaves
from configs.loading.loader import load_config
from tests.configs.good import GOOD

# A value other than the default, and what it needs beside it to be accepted by an objective that uses it.
OTHER_VALUES: dict[str, tuple[str, ...]] = {
    "eps_clip": ("actor.eps_clip=0.3",),
    "eps_clip_higher": ("actor.eps_clip_higher=0.3",),
    "c_clip": ("actor.c_clip=3",),
    "sapo_temperature_pos": ("actor.sapo_temperature_pos=2",),
    "sapo_temperature_neg": ("actor.sapo_temperature_neg=2",),
    "m2_threshold": ("actor.m2_threshold=0.04",),
    "behavior_correction.level": (
        "actor.behavior_correction.level=sequence",
        "actor.behavior_correction.mode=mask",
        "actor.behavior_correction.upper=2",
    ),
}


def test_every_ignored_key_has_a_value_here() -> None:
    assert set(OTHER_VALUES) == set(IGNORED_BY)


@pytest.mark.parametrize(("objective", "key"), list(itertools.product(OBJECTIVES, IGNORED_BY)))
def test_pair(objective: str, key: str) -> None:
    overrides = [*GOOD, f"actor.objective={objective}", *OTHER_VALUES[key]]
    if objective not in IGNORED_BY[key]:
        load_config(None, overrides)
        return
    with pytest.raises(ConfigError, match=rf"actor.{key}=.* is ignored by actor.objective={objective}; leave it at"):
        load_config(None, overrides)


def other_value(key: str) -> object:
    """A value that is not the default of `actor.KEY` and is in its range."""
    leaf = leaves()[f"actor.{key}"]
    if leaf.choices:
        return next(c for c in leaf.choices if c != leaf.default)
    if leaf.type is bool:
        return not leaf.default
    candidates = [0.5, 2, 3] if leaf.type is float else [3, 4]
    return next(c for c in candidates if c != leaf.default and RANGES[f"actor.{key}"].holds(c))


def breaks(requirement: Requirement) -> list[str]:
    """The other key at a value that makes `requirement.key` have no effect."""
    leaf = leaves()[f"actor.{requirement.needs}"]
    if not requirement.values:
        return []
    choices = leaf.choices or (False, True)
    value = next(c for c in choices if c not in requirement.values)
    return [f"actor.{requirement.needs}={str(value).lower()}"]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda r: f"{r.key} needs {r.needs}")
def test_requirement(requirement: Requirement) -> None:
    value = other_value(requirement.key)
    objective = requirement.objectives[0]
    overrides = [*GOOD, f"actor.objective={objective}", *breaks(requirement), f"actor.{requirement.key}={value}"]
    with pytest.raises(ConfigError, match=r"has no effect under actor\.|is ignored by"):
        load_config(None, overrides)
