"""`key=value` arguments of the command line as settings."""

from collections.abc import Sequence
from typing import Any

import yaml

from configs.errors import ConfigError
from configs.keys import leaves, mapping_leaf_of, sections
from configs.loading.yaml_file import COMMAND_LINE, Setting, YamlLoader
from configs.nearest import nearest_key

NULLS = ("null", "~", "None")


def parse_overrides(arguments: Sequence[str]) -> list[Setting]:
    """One setting per `key=value`; several for `section={key: value}`.

    Raises:
        ConfigError: an argument that is no `key=value`, with the form it should have.
    """
    return [setting for argument in arguments for setting in _parse(argument)]


def _parse(argument: str) -> list[Setting]:
    key, equals, text = argument.partition("=")
    bare = key.lstrip("-+~").strip()
    if not equals:
        close = nearest_key(bare) or bare
        raise ConfigError(f"Argument {argument!r} is not key=value; write for instance {close}=VALUE.")
    if bare != key:
        raise ConfigError(f"Argument {argument!r} begins with {key[0]!r}; write {bare}={text}.", bare)
    return _flatten(key, _value(key, text))


def _value(key: str, text: str) -> Any:
    leaf = leaves().get(key)
    if leaf is not None and leaf.type is str and text[:1] not in ("'", '"'):
        # Text is taken as typed: `run.name=1e5` and `dataset.prompt_suffix=a: b` are no YAML.
        return None if leaf.optional and text in (*NULLS, "") else text
    try:
        return yaml.load(text, Loader=YamlLoader)  # a safe loader
    except yaml.YAMLError:
        raise ConfigError(f"{key}={text} is not valid YAML; put the value in quotes.", key) from None


def _flatten(key: str, value: Any) -> list[Setting]:
    leaf = leaves().get(key)
    spread = key in sections() or (leaf is not None and leaf.is_mapping)
    if isinstance(value, dict) and spread and mapping_leaf_of(key) is None:
        return [s for name, v in value.items() for s in _flatten(f"{key}.{name}", v)]
    return [Setting(key, value, COMMAND_LINE)]
