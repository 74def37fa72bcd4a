"""What a parity study runs: one base config, and variants that each say how the sampler differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from configs.errors import ConfigError
from configs.nearest import nearest

Role = Literal["reference", "initial", "repair", "final", "current", "control"]
ROLES: tuple[str, ...] = get_args(Role)
DEFAULT_LIMIT = 2.0
DEFAULT_SMOOTHING = 0.1


@dataclass(frozen=True)
class ParityVariant:
    """One way to sample. `initial`, the repairs and `final` form a chain in which each adds one thing."""

    name: str
    role: Role
    about: str  # one sentence for the page
    overrides: tuple[str, ...]
    seeds: tuple[int, ...]
    env: tuple[tuple[str, str], ...] = ()  # environment variables of its processes
    needs_gpu: bool = False  # marked on the page and left out without one
    expect_outside: tuple[str, ...] = ()  # panels in which the documents saw it leave the reference

    @property
    def folder(self) -> str:
        return "".join(c if c.isalnum() or c in "._-" else "_" for c in self.name)


@dataclass(frozen=True)
class ParitySpec:
    """A study; all variants share `config` and `overrides`, hence initial weights and data order."""

    title: str
    config: Path
    overrides: tuple[str, ...]
    variants: tuple[ParityVariant, ...]
    limit: float = DEFAULT_LIMIT  # largest distance from the reference, in units of its seeds' own distance
    smoothing: float = DEFAULT_SMOOTHING  # width of the moving average, as a fraction of the steps
    prepare: str | None = None  # Python module that makes model and data where model.path is missing
    notes: tuple[str, ...] = field(default=())  # what the page should say about this study

    @property
    def reference(self) -> ParityVariant:
        return next(v for v in self.variants if v.role == "reference")

    def of_role(self, role: Role) -> list[ParityVariant]:
        return [v for v in self.variants if v.role == role]

    @property
    def chain(self) -> list[ParityVariant]:
        """Initial, repairs in their order, final."""
        return [v for v in self.variants if v.role in ("initial", "repair", "final")]


SPEC_KEYS = ("title", "config", "overrides", "seeds", "limit", "smoothing", "prepare", "notes", "variants")
VARIANT_KEYS = ("name", "role", "about", "overrides", "seeds", "env", "needs_gpu", "expect_outside")


def load_spec(path: Path, overrides: Sequence[str]) -> ParitySpec:
    """The study that a YAML file describes; `overrides` come after the file's, for every variant.

    Raises:
        ConfigError: the file cannot be used; names the key.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"--config {path} cannot be read ({error}); name a parity study's YAML file.") from None
    if not isinstance(content, Mapping) or "variants" not in content:
        raise ConfigError(f"--config {path} names no variants; name a parity study, such as configs/parity/cpu.yaml.")
    _require_known(content, SPEC_KEYS, str(path))
    seeds = content.get("seeds", [1])
    spec = ParitySpec(
        title=str(content.get("title", path.stem)),
        config=(path.parent / str(content.get("config", ""))).resolve(),
        overrides=(*_texts(content, "overrides"), *overrides),
        variants=tuple(_variant(v, seeds, path) for v in content["variants"]),
        limit=float(content.get("limit", DEFAULT_LIMIT)),
        smoothing=float(content.get("smoothing", DEFAULT_SMOOTHING)),
        prepare=content.get("prepare"),
        notes=_texts(content, "notes"),
    )
    _check(spec, path)
    return spec


def _variant(content: Any, seeds: Any, path: Path) -> ParityVariant:
    if not isinstance(content, Mapping) or "name" not in content:
        raise ConfigError(f"{path}: every variant needs a name; this one is {content!r}.")
    where = f"{path}: variant {content['name']}"
    _require_known(content, VARIANT_KEYS, where)
    role = content.get("role", "control")
    if role not in ROLES:
        raise ConfigError(f"{where}: role={role} is none of {', '.join(ROLES)}.")
    return ParityVariant(
        name=str(content["name"]),
        role=role,
        about=str(content.get("about", "")).strip(),
        overrides=_texts(content, "overrides"),
        seeds=tuple(int(s) for s in content.get("seeds", seeds)),
        env=tuple((str(k), str(v)) for k, v in dict(content.get("env", {})).items()),
        needs_gpu=bool(content.get("needs_gpu", False)),
        expect_outside=_texts(content, "expect_outside"),
    )


def _texts(content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(str(value) for value in content.get(key) or ())


def _require_known(content: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in content:
        if key not in known:
            close = nearest(str(key), known)
            hint = f"did you mean {close}?" if close else f"the keys are {', '.join(known)}."
            raise ConfigError(f"{where}: {key!r} is not a key; {hint}")


def _check(spec: ParitySpec, path: Path) -> None:
    names = [v.folder for v in spec.variants]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise ConfigError(f"{path}: two variants are named {twice}; give each a name of its own.")
    for role, how_many in (("reference", 1), ("final", 1)):
        found = sum(v.role == role for v in spec.variants)
        if found != how_many:
            raise ConfigError(f"{path}: {found} variants have role={role}; exactly one must.")
    if len(set(spec.reference.seeds)) < 2:
        raise ConfigError(
            f"{path}: the reference {spec.reference.name} has seeds={list(spec.reference.seeds)}; "
            "give it two or more, whose spread is what the others are measured by."
        )
    if spec.limit <= 0:
        raise ConfigError(f"{path}: limit={spec.limit} is not a distance; use {DEFAULT_LIMIT}.")
