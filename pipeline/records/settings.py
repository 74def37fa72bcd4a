"""The settings in a run's config.yaml, as they were written: a run of an older version may lack keys or hold others."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from pipeline.records.run_folder import RunFolder


def read_settings(folder: RunFolder) -> dict[str, Any]:
    """The settings with which the run was last started; empty where they cannot be read."""
    try:
        settings = yaml.safe_load(folder.config.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return unescaped(settings) if isinstance(settings, dict) else {}


def setting(tree: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """The value of a dotted key, or `default` where it is missing."""
    value: Any = tree
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return default
        value = value[name]
    return value


def changed(before: Mapping[str, Any], now: Mapping[str, Any], keys: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
    """Key, old and new value of each of `keys` that differs; one that an older version did not have is as it is now."""
    for key in keys:
        new = setting(now, key)
        old = setting(before, key, new)
        if old != new:
            yield key, old, new


def unescaped(value: Any) -> Any:
    """Undo what `configs.loading.loader.save_config` does to text that holds `${`."""
    if isinstance(value, str):
        return value.replace(r"\${", "${")
    if isinstance(value, dict):
        return {k: unescaped(v) for k, v in value.items()}
    return [unescaped(v) for v in value] if isinstance(value, list) else value
