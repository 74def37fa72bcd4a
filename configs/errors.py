"""The one error of the configuration: a sentence that names the key, the value and the remedy."""

from typing import Any


class ConfigError(ValueError):
    """Something in the config that a user can fix.

    `key` is the dotted key at fault (None when no single key is), so that the loader can say where it was set.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key

    def at(self, origin: str) -> "ConfigError":
        """The same error, saying where the key was set: `configs/x.yaml:12` or the command line."""
        return ConfigError(f"{str(self).removesuffix('.')} (from {origin}).", self.key)


def shown(value: Any) -> str:
    """A value as a user would type it in YAML: true, null, [1, 2], text without quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(shown(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str) and (not value or value != value.strip()):
        return repr(value)
    return str(value)


def refused(key: str, value: Any, why: str, remedy: str) -> ConfigError:
    """`key=value why; remedy.` as one sentence."""
    return ConfigError(f"{key}={shown(value)} {why}; {remedy}.", key)
