"""In which settings runs differ."""

from collections.abc import Mapping, Sequence
from typing import Any

ABSENT = "—"


def flattened(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Dotted key → value; lists stay whole, and so do empty sections."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping) and value:
            flat |= flattened(value, f"{key}.")
        else:
            flat[key] = value
    return flat


def config_diff(configs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Key and one text a run, for the keys whose values are not the same in all runs; in order of the configs."""
    flat = [flattened(c) for c in configs]
    keys = list(dict.fromkeys(key for f in flat for key in f))
    rows = [(key, [_shown(f[key]) if key in f else ABSENT for f in flat]) for key in keys]
    return [(key, texts) for key, texts in rows if len(set(texts)) > 1]


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
