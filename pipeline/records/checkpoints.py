"""Atomic checkpoints of the whole run: written aside, hashed, renamed; the newest whole one is found again."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.records.run_folder import write_json

MANIFEST = "manifest.json"
RUN_STATE = "run.json"
POLICY = "policy"
TRAINER = "trainer"


@dataclass(frozen=True)
class Checkpoint:
    """`step-NNNNNN/` with `policy/` (Hugging Face format), `trainer/`, `run.json` and `manifest.json`."""

    path: Path

    @property
    def step(self) -> int:
        """Training steps that it holds, by the name of its folder."""
        return int(self.path.name.removeprefix("step-"))

    @property
    def policy(self) -> Path:
        return self.path / POLICY

    @property
    def trainer(self) -> Path:
        return self.path / TRAINER

    def run_state(self) -> dict[str, Any]:
        """What `RunState.to_json` gave; raises OSError or ValueError where it cannot be read."""
        state: dict[str, Any] = json.loads((self.path / RUN_STATE).read_text())
        return state

    def damage(self) -> str | None:
        """What is wrong with it in a few words, or None when every file is as it was written."""
        try:
            manifest = json.loads((self.path / MANIFEST).read_text())
        except (OSError, ValueError):  # ValueError: no JSON, or not even text
            return "its manifest is missing or unreadable"
        parts = {name.partition("/")[0] for name in manifest} if isinstance(manifest, dict) else set()
        if not parts >= {RUN_STATE, POLICY, TRAINER}:
            return "its manifest is not whole"
        for name, digest in manifest.items():
            file = self.path / name
            try:
                if not file.is_file():
                    return f"{name} is missing"
                if _sha256(file) != digest:
                    return f"{name} differs from its checksum"
            except OSError:
                return f"{name} cannot be read"
        return None


class CheckpointStore:
    """Checkpoints of one run folder; writing one keeps the newest `keep`."""

    def __init__(self, root: Path, keep: int = 1) -> None:
        self._root, self._keep = root, keep

    def all(self) -> list[Checkpoint]:
        """Finished checkpoints, oldest first."""
        found = (p for p in self._root.glob("step-*") if p.name.removeprefix("step-").isdigit())
        return sorted((Checkpoint(p) for p in found), key=lambda c: c.step)

    def newest_whole(
        self, damage_beside: Callable[[Checkpoint], str | None] = lambda checkpoint: None
    ) -> tuple[Checkpoint | None, list[str]]:
        """The newest undamaged checkpoint, and a sentence for each newer one that is skipped.

        `damage_beside`: what else keeps a run from resuming from a whole one.
        """
        passed_over: list[str] = []
        for checkpoint in reversed(self.all()):
            damage = checkpoint.damage() or damage_beside(checkpoint)
            if damage is None:
                return checkpoint, passed_over
            passed_over.append(f"{checkpoint.path} is damaged ({damage}); it is skipped")
        return None, passed_over

    def partial_bytes(self) -> int:
        """What `remove_partial` would free."""
        files = (file for partial in self._partials() for file in partial.rglob("*"))
        return sum(file.stat().st_size for file in files if file.is_file())

    def remove_partial(self) -> None:
        """Delete what checkpoints that were cut short have left; only for the process that holds the run's lock."""
        for partial in self._partials():
            shutil.rmtree(partial, ignore_errors=True)

    def _partials(self) -> Iterator[Path]:
        return self._root.glob(".step-*.partial")

    def begin(self, step: int) -> Path:
        """An empty folder beside the checkpoints to write step's into."""
        partial = self._root / f".step-{step:06d}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        (partial / POLICY).mkdir(parents=True)
        (partial / TRAINER).mkdir()
        return partial

    def finish(self, partial: Path, step: int, run_state: dict[str, Any]) -> Checkpoint:
        """Add the run's state and the manifest, rename into place, delete what is beyond `keep`."""
        write_json(partial / RUN_STATE, run_state)
        files = sorted(p for p in partial.rglob("*") if p.is_file())
        write_json(partial / MANIFEST, {str(p.relative_to(partial)): _sha256(p) for p in files})
        for written in (*partial.rglob("*"), partial):
            to_disk(written)
        final = self._root / f"step-{step:06d}"
        shutil.rmtree(final, ignore_errors=True)
        os.replace(partial, final)
        to_disk(self._root)
        # Newer ones were damaged and skipped; they would push whole ones out of the `keep` newest.
        for newer in [c for c in self.all() if c.step > step]:
            shutil.rmtree(newer.path, ignore_errors=True)
        for old in self.all()[: -self._keep]:
            shutil.rmtree(old.path, ignore_errors=True)
        return Checkpoint(final)


def to_disk(path: Path) -> None:
    """Wait until a file, or a folder's list of names, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
