"""The record that an environment was created whole and checked; without it, it is not used."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from rollout.environments.location import EnvironmentFolder
from rollout.environments.specs import EnvironmentSpec, python_minor


@dataclass(frozen=True)
class Stamp:
    """What was installed, what its processes need around them, and what the check saw."""

    name: str
    device: str
    python: str
    requirements: list[str]
    overrides: list[str]
    preload: list[str]  # paths for LD_PRELOAD
    versions: dict[str, str]
    checked_token_ids: list[int] = field(default_factory=list)  # what the check generated
    created: str = ""  # ISO 8601, UTC


def write_stamp(folder: EnvironmentFolder, stamp: Stamp) -> None:
    """Write aside and rename, so that a reader never sees half a stamp."""
    partial = folder.stamp.with_name(folder.stamp.name + ".partial")
    partial.write_text(json.dumps(asdict(stamp), indent=2) + "\n")
    os.replace(partial, folder.stamp)


def read_stamp(folder: EnvironmentFolder) -> Stamp | None:
    """The stamp, or None if it cannot be read."""
    try:
        found: dict[str, Any] = json.loads(folder.stamp.read_text())
        return Stamp(**found)
    except (OSError, ValueError, TypeError):
        return None


def _asked(requirements: Sequence[str]) -> set[str]:
    """vLLM with its version, the shared packages by name: of those, only Ray's version matters and is checked."""
    return {r if r.startswith("vllm") else r.partition("==")[0] for r in requirements}


def why_unusable(spec: EnvironmentSpec, folder: EnvironmentFolder) -> str | None:
    """Why this environment cannot be used now, or None when it can.

    Ray joins processes of one Python minor version and one Ray version only, so both must still be the driver's.
    """
    if not folder.root.exists():
        return "was never created"
    stamp = read_stamp(folder)
    if stamp is None or not folder.python.exists():
        return "was not created to the end"
    if stamp.python != python_minor():
        return f"was created for Python {stamp.python}, and this is Python {python_minor()}"
    if stamp.versions.get("ray") != version("ray"):
        return f"holds Ray {stamp.versions.get('ray')}, and this is Ray {version('ray')}"
    if sorted(stamp.overrides) != sorted(spec.overrides) or _asked(stamp.requirements) != _asked(spec.requirements):
        return "was created for other packages"
    lost = [path for path in stamp.preload if not os.path.exists(path)]
    if lost:
        return f"needs {lost[0]}, which is gone"
    return None
