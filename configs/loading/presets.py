"""The presets, jobs in YAML that come with the project."""

import os
from pathlib import Path

PRESET_FOLDERS = ("examples", "configs")
STUDY_FOLDERS = ("ablate", "parity")
"""These hold descriptions of studies, which vary a job, and no jobs."""


def presets() -> list[str]:
    """Paths of the presets as a user would type them, the small ones for CPUs first."""
    root = Path(__file__).resolve().parents[2]
    found = [p for folder in PRESET_FOLDERS for p in sorted((root / folder).rglob("*.yaml"))]
    found = [p for p in found if not set(STUDY_FOLDERS) & set(p.relative_to(root).parts)]
    paths = [os.path.relpath(p) if p.is_relative_to(Path.cwd()) else str(p) for p in found]
    return sorted(paths, key=lambda p: ("quickstart" not in p, "cpu" not in p))


def cpu_presets() -> list[str]:
    """The presets that need no GPU."""
    return [p for p in presets() if "quickstart" in Path(p).name or Path(p).stem.endswith("_cpu")]
