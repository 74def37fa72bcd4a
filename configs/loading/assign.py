"""Put one setting into the structured config, or say in a sentence why it cannot go there."""

from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs.errors import ConfigError, refused, shown
from configs.foreign_keys import WITHOUT_COUNTERPART
from configs.keys import Leaf, leaves, mapping_leaf_of, sections
from configs.loading.yaml_file import Setting
from configs.nearest import nearest, nearest_key

CHOICE_REMEDIES: dict[tuple[str, str], str] = {
    ("actor.prox_logp_method", "rollout"): "for the behavior policy as the centre set actor.use_decoupled_loss=false",
    ("actor.prox_logp_method", "none"): "for standard PPO set actor.use_decoupled_loss=false",
    ("actor.objective", "grpo"): "use ppo with actor.advantage.baseline=group_mean, which is GRPO",
    ("actor.objective", "rloo"): "use ppo with actor.advantage.baseline=leave_one_out, which is RLOO",
    ("actor.objective", "dapo"): "use ppo with actor.eps_clip_higher and actor.advantage.zero_variance=resample",
    ("model.dtype", "bf16"): "use bfloat16",
    ("model.dtype", "fp32"): "use float32",
    ("model.dtype", "auto"): "name bfloat16 or float32, so that both halves use the same",
    ("model.dtype", "float16"): "use bfloat16, which needs no loss scaling",
    ("model.dtype", "fp16"): "use bfloat16, which needs no loss scaling",
    ("scheduler.type", "slurm"): "start Ray on the nodes and use ray",
}
"""What a user most likely wants who gives a choice that does not exist."""


def assign(config: DictConfig, setting: Setting) -> str:
    """Set the value in place and return the full dotted key that it went to.

    Raises:
        ConfigError: unknown key, section given a value, wrong type or undeclared choice.
    """
    mapping = mapping_leaf_of(setting.key)
    if mapping is not None:
        return _assign_in_mapping(config, setting, mapping)
    leaf = leaves().get(setting.key)
    if leaf is None:
        raise (_section_error(setting) if setting.key in sections() else _unknown_key(setting)).at(setting.origin)
    if _is_wrong_bool(leaf, setting.value):
        raise _wrong_value(leaf, setting.value).at(setting.origin)
    try:
        OmegaConf.update(config, setting.key, setting.value)
    except (OmegaConfBaseException, ValueError):
        raise _wrong_value(leaf, setting.value).at(setting.origin) from None
    return setting.key


def _assign_in_mapping(config: DictConfig, setting: Setting, mapping: Leaf) -> str:
    first, *rest = setting.key.removeprefix(f"{mapping.key}.").split(".")
    path = [first.removeprefix("--").replace("-", "_"), *rest]
    plain = OmegaConf.to_container(OmegaConf.select(config, mapping.key))
    assert isinstance(plain, dict)
    target: dict[Any, Any] = plain
    for name in path[:-1]:
        inner = target.get(name)
        target[name] = dict(inner) if isinstance(inner, dict) else {}
        target = target[name]
    target[path[-1]] = setting.value
    OmegaConf.update(config, mapping.key, plain, merge=False)
    return ".".join([mapping.key, path[0]])


def _is_wrong_bool(leaf: Leaf, value: Any) -> bool:
    return leaf.type is bool and isinstance(value, int | float) and not isinstance(value, bool)


def _section_error(setting: Setting) -> ConfigError:
    inside = next(k for k in leaves() if k.startswith(f"{setting.key}."))
    return refused(setting.key, setting.value, "is a section and takes no value", f"set a key in it, such as {inside}")


def _unknown_key(setting: Setting) -> ConfigError:
    given = f"Unknown key {setting.key}={shown(setting.value)}"
    if setting.key in WITHOUT_COUNTERPART:
        return ConfigError(f"{given}: leave it out; {WITHOUT_COUNTERPART[setting.key]}.", setting.key)
    close = nearest_key(setting.key)
    if close is None:
        top = dict.fromkeys(k.split(".")[0] for k in leaves())
        return ConfigError(f"{given}; the sections are {', '.join(top)}.", setting.key)
    put = f"; put it under {close.rpartition('.')[0]}" if close.endswith(f".{setting.key}") else ""
    return ConfigError(f"{given}: the nearest key is {close}{put}.", setting.key)


def expected(leaf: Leaf) -> str:
    """What a leaf takes, in words."""
    if leaf.choices:
        words = "one of " + ", ".join(shown(c) for c in leaf.choices)
    elif leaf.is_mapping:
        words = "a mapping of names to values"
    else:
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        names |= {list[int]: "a list of whole numbers such as [1, 2]", list[str]: "a list of names such as [a, b]"}
        words = names[leaf.type]
    return f"{words}, or null" if leaf.optional else words


def _wrong_value(leaf: Leaf, value: Any) -> ConfigError:
    remedy = CHOICE_REMEDIES.get((leaf.key, str(value).lower()))
    if remedy is None and leaf.choices:
        close = nearest(str(value), [str(c) for c in leaf.choices])
        remedy = f"the nearest is {close}" if close else f"the default is {shown(leaf.default)}"
    if remedy is None:
        remedy = "give it a value" if leaf.mandatory else f"the default is {shown(leaf.default)}"
    return refused(leaf.key, value, f"is not {expected(leaf)}", remedy)
