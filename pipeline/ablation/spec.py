"""What an ablation runs: a base config, a grid over any keys, and seeds."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from configs.errors import ConfigError

SEED_KEY = "run.seed"


@dataclass(frozen=True)
class Variant:
    """One point of the grid; the first one is the baseline."""

    values: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The values, joined: what tables and folders call it."""
        return ",".join(v for _, v in self.values) or "base"

    @property
    def folder(self) -> str:
        return "".join(c if c.isalnum() or c in "._-" else "_" for c in self.name)

    @property
    def overrides(self) -> list[str]:
        return [f"{k}={v}" for k, v in self.values]


@dataclass(frozen=True)
class AblationSpec:
    """`config` and `overrides` are shared by all runs; every variant runs once a seed."""

    config: Path
    overrides: tuple[str, ...]
    grid: tuple[tuple[str, tuple[str, ...]], ...]
    seeds: tuple[int, ...] = (1,)
    variants: tuple[Variant, ...] = field(init=False)

    def __post_init__(self) -> None:
        keys = [k for k, _ in self.grid]
        points = itertools.product(*(values for _, values in self.grid))
        object.__setattr__(self, "variants", tuple(Variant(tuple(zip(keys, p, strict=True))) for p in points))


def load_spec(
    path: Path, grid_options: Sequence[str], seeds: Sequence[int] | None, overrides: Sequence[str]
) -> AblationSpec:
    """An ablation file (with `config`, `grid`, `seeds`, `overrides`), or a run's config with `--grid` options.

    Raises:
        ConfigError: the file or an option cannot be used.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(
            f"--config {path} cannot be read ({error}); name an ablation file or a run's config"
        ) from None
    if not isinstance(content, Mapping):
        raise ConfigError(f"--config {path} holds no settings; name an ablation file or a run's config")
    file: Mapping[str, Any] = content if "grid" in content else {"config": path.name}
    _check_keys(path, file)
    grid = {str(k): [_plain(v) for v in values] for k, values in dict(file.get("grid", {})).items()}
    grid |= dict(_parse_grid(option) for option in grid_options)
    if not grid:
        raise ConfigError("the grid is empty; add --grid key=value1,value2 or name a file with a grid")
    if SEED_KEY in grid:
        raise ConfigError(f"{SEED_KEY} is no grid key; use --seeds 1,2,3, whose spread the table shows")
    return AblationSpec(
        config=(path.parent / str(file["config"])).resolve(),
        overrides=(*(str(o) for o in file.get("overrides", [])), *overrides),
        grid=tuple((k, tuple(v)) for k, v in grid.items()),
        seeds=tuple(seeds or (int(s) for s in file.get("seeds", [1]))),
    )


def _check_keys(path: Path, file: Mapping[str, Any]) -> None:
    known = {"config", "grid", "seeds", "overrides"}
    unknown = sorted(set(file) - known)
    if unknown:
        raise ConfigError(
            f"{path}: {unknown[0]!r} is not a key of an ablation file; the keys are {', '.join(sorted(known))}"
        )
    if "config" not in file:
        raise ConfigError(f"{path}: 'config' is missing; name the run's config, relative to this file")


def _parse_grid(option: str) -> tuple[str, list[str]]:
    key, separator, values = option.partition("=")
    chosen = [v for v in values.split(",") if v]
    if not separator or not chosen:
        raise ConfigError(f"--grid {option} is not key=value1,value2")
    return key, chosen


def _plain(value: Any) -> str:
    """A YAML value as an override spells it."""
    return value if isinstance(value, str) else json.dumps(value)
