"""From a YAML file and `key=value` overrides to a checked, plain `Config`."""

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs.checks.validate import validate
from configs.errors import ConfigError
from configs.keys import leaves
from configs.loading.assign import assign
from configs.loading.overrides import parse_overrides
from configs.loading.yaml_file import DEFAULT, compose
from configs.private_file import write_private
from configs.schema import Config

HOME_KEYS = ("model.path", "dataset.path", "eval.path", "run.dir")
"""Paths in which a leading ~ means the home folder; relative ones are relative to the working directory."""


@dataclass(frozen=True)
class LoadedConfig:
    """`origins`: dotted key → `FILE:LINE` or the command line; a key that is missing has its default."""

    config: Config
    origins: Mapping[str, str]

    def origin(self, key: str) -> str:
        return self.origins.get(key, DEFAULT)


def load_config(path: str | Path | None, overrides: Sequence[str] = ()) -> Config:
    """The config of a file (and its `_base_` files) with overrides on top, checked as a whole.

    Raises:
        ConfigError: one sentence that names the key, the value, where it was set and the remedy.
    """
    return load_with_origins(path, overrides).config


def load_with_origins(path: str | Path | None, overrides: Sequence[str] = ()) -> LoadedConfig:
    """As `load_config`, and where each value came from."""
    settings = compose(Path(path).expanduser()) if path is not None else []
    structured = copy.deepcopy(_empty())
    origins: dict[str, str] = {}
    for setting in [*settings, *parse_overrides(overrides)]:
        origins[assign(structured, setting)] = setting.origin
    _refuse_missing(structured)
    loaded = LoadedConfig(_to_plain(structured), origins)
    try:
        validate(loaded.config)
    except ConfigError as error:
        if error.key in origins:
            raise error.at(origins[error.key]) from None
        raise
    return loaded


def save_config(config: Config, path: str | Path) -> None:
    """Write the whole config, defaults included, as YAML that `load_config` reads back; for the owner's eyes only."""
    text = yaml.safe_dump(_escaped(asdict(config)), sort_keys=False, allow_unicode=True)
    write_private(Path(path), text)


@cache
def _empty() -> DictConfig:
    return OmegaConf.structured(Config)


def _escaped(value: Any) -> Any:
    """Text that happens to hold `${` stays text when it is read back."""
    if isinstance(value, str):
        return value.replace("${", r"\${")
    if isinstance(value, dict):
        return {k: _escaped(v) for k, v in value.items()}
    return [_escaped(v) for v in value] if isinstance(value, list) else value


def _refuse_missing(structured: DictConfig) -> None:
    missing = [key for key in leaves() if OmegaConf.is_missing(OmegaConf.select(structured, _parent(key)), _name(key))]
    if missing:
        keys = ", ".join(missing)
        verb = "has" if len(missing) == 1 else "have"
        shape = " ".join(f"{key}=VALUE" for key in missing)
        raise ConfigError(f"{keys} {verb} no value; set {shape} in the file or on the command line.", missing[0])


def _to_plain(structured: DictConfig) -> Config:
    try:
        config: Any = OmegaConf.to_object(structured)
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None) or "a value"
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"{key} refers to something that does not exist ({reason}); write \\${{ where you mean the text ${{.", key
        ) from None
    assert isinstance(config, Config)
    for key in HOME_KEYS:
        section, name = getattr(config, _parent(key)), _name(key)
        value = getattr(section, name)
        setattr(section, name, os.path.expanduser(value) if value else value)
    return config


def _parent(key: str) -> str:
    return key.rpartition(".")[0]


def _name(key: str) -> str:
    return key.rpartition(".")[2]
