"""Every dotted key of the schema: which are sections, which hold a value, of what type and with what doc."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from configs.schema import Config


@dataclass(frozen=True)
class Leaf:
    """A key that holds a value. `choices` is empty unless the type is a Literal."""

    key: str
    type: Any  # without None
    optional: bool
    choices: tuple[Any, ...]
    default: Any  # "???" when mandatory
    doc: str

    @property
    def mandatory(self) -> bool:
        return isinstance(self.default, str) and self.default == "???"

    @property
    def is_mapping(self) -> bool:
        return get_origin(self.type) is dict


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        rest = tuple(a for a in get_args(annotation) if a is not type(None))
        assert len(rest) == 1, f"{annotation} is a union of several types"
        return rest[0], True
    return annotation, False


def _walk(section: type, prefix: str, leaves: dict[str, Leaf], sections: dict[str, type]) -> None:
    hints = get_type_hints(section)
    for field in fields(section):
        key = f"{prefix}{field.name}"
        kind, optional = _without_none(hints[field.name])
        if is_dataclass(kind):
            assert isinstance(kind, type)
            sections[key] = kind
            _walk(kind, f"{key}.", leaves, sections)
            continue
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        leaves[key] = Leaf(key, kind, optional, choices, default, str(field.metadata.get("doc", "")))


@cache
def _schema() -> tuple[Mapping[str, Leaf], Mapping[str, type]]:
    leaves: dict[str, Leaf] = {}
    sections: dict[str, type] = {}
    _walk(Config, "", leaves, sections)
    return types.MappingProxyType(leaves), types.MappingProxyType(sections)


def leaves() -> Mapping[str, Leaf]:
    """Dotted key → leaf, in the order of the schema."""
    return _schema()[0]


def sections() -> Mapping[str, type]:
    """Dotted key → dataclass of every section, `actor` and `actor.kl` among them."""
    return _schema()[1]


def mapping_leaf_of(key: str) -> Leaf | None:
    """The free-form mapping that `key` is in, for instance vllm_kwargs for `….vllm_kwargs.max_num_seqs`."""
    for leaf in leaves().values():
        if leaf.is_mapping and key.startswith(f"{leaf.key}."):
            return leaf
    return None


def value_of(config: Config, key: str) -> Any:
    """The value at a dotted key of a plain config."""
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value
