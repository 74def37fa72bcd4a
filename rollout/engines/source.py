"""Let the processes of another environment import proxrl's packages, and nothing else of this environment."""

import os
from pathlib import Path

import rollout
from rollout.engines.location import EnvironmentFolder

PACKAGES = ("configs", "rollout", "pipeline")


def link_source(folder: EnvironmentFolder) -> Path:
    """A folder for PYTHONPATH that holds links to the running proxrl's packages.

    Their parent itself must not go there: where proxrl is installed, that is this environment's site-packages, whose
    torch and vLLM would then hide the other environment's own.
    """
    parent = Path(rollout.__file__).resolve().parent.parent
    folder.source.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        link, target = folder.source / name, parent / name
        if link.is_symlink() and link.resolve() == target:
            continue
        # Made aside and renamed: several workers may start at once.
        aside = folder.source / f".{name}-{os.getpid()}"
        aside.unlink(missing_ok=True)
        aside.symlink_to(target, target_is_directory=True)
        os.replace(aside, link)
    return folder.source
