"""Which code is ours: a ValueError that it raises is the user's to mend, one from a library is a defect."""

from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = tuple(_ROOT / name for name in ("pipeline", "actor", "rollout", "configs"))


def is_ours(filename: str) -> bool:
    """Whether a file, as a traceback names it, lies in one of our packages."""
    return any(Path(filename).is_relative_to(package) for package in _PACKAGES)
