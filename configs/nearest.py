"""The known name that a mistyped one most likely meant."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from configs.foreign_keys import FOREIGN_KEYS
from configs.keys import leaves, sections

MIN_SIMILARITY = 0.6
"""difflib ratio under which a suggestion would mislead more than it helps; difflib's own default."""
MIN_PREFIX = 3
"""A name at least this long that begins a known one is taken as its beginning."""


def _similarity(a: str, b: str) -> float:
    return SequenceMatcher(None, a.lower().replace("-", "_"), b.lower().replace("-", "_")).ratio()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar of `known`, one that begins with `name` before others; None when none is similar."""
    known = list(known)
    longer = [k for k in known if len(name) >= MIN_PREFIX and k.startswith(name.lower())]
    if longer:
        return min(longer, key=len)
    best = max(known, key=lambda k: _similarity(name, k), default=None)
    return best if best is not None and _similarity(name, best) >= MIN_SIMILARITY else None


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def nearest_key(key: str) -> str | None:
    """The full dotted key that an unknown one most likely meant, or None.

    Tried in turn: another system's name or section, a known key's tail, the same name below the same section and then
    anywhere, a similar name below the same section, any similar whole key, any similar name.
    """
    if key in FOREIGN_KEYS:
        return FOREIGN_KEYS[key]
    section, _, name = key.partition(".")
    moved = f"{FOREIGN_KEYS.get(section)}.{name}"
    if moved in leaves():
        return moved
    known = [*sections(), *leaves()]
    plain = key.lower().replace("-", "_")
    tails = [k for k in known if k == plain or k.endswith(f".{plain}")]
    if tails:
        return min(tails, key=lambda k: k.count("."))
    parent = key.rpartition(".")[0]
    below = [k for k in known if k.startswith(f"{parent}.")] if parent else []
    return (
        _same_name(key, below)
        or _same_name(key, known)
        or FOREIGN_KEYS.get(_last(key))
        or _similar_name(key, below)
        or nearest(key, known)
        or _similar_name(key, known)
    )


def _same_name(key: str, known: list[str]) -> str | None:
    same = [k for k in known if _last(k) == _last(key).lower().replace("-", "_")]
    return max(same, key=lambda k: _similarity(key, k), default=None)


def _similar_name(key: str, known: list[str]) -> str | None:
    name = nearest(_last(key), [_last(k) for k in known])
    return next((k for k in known if _last(k) == name), None)
