"""A run's files in shared memory, and how none of them is left behind, however its processes end.

```
/dev/shm/proxrl-PID-XXXXXXXX/      published weights; `lock` is held while the run lives, `held.json` names the rest
/dev/shm/sem.proxrl-PID-XXXXXXXX-* semaphores that its processes make (multiprocessing)
/dev/shm/psm_*                     blocks of shared memory that its processes hold
/dev/shm/__KMP_REGISTERED_LIB_PID_UID   left by a killed process that used Intel's OpenMP
```
A process that is killed outright removes nothing, so the run does it for its own; of a run that was killed itself, the
next one does. On a cluster every trainer rank and rollout worker has such a folder on its own machine, and the run
sends for what they leave when it ends. What bears no name of a run or of a process of its own is never touched.
"""

import fcntl
import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")
PREFIX = "proxrl-"
LOCK, HELD = "lock", "held.json"
GRACE_S = 3.0  # Ray's processes are gone within a second after its end
DEATH_S = 1.0


def shared_memory_folder() -> Path:
    """Where the files of runs lie on this machine: memory, or the temporary folder where that cannot be used."""
    return SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())


class SharedMemory:
    """Of one run, from before its first process to after its last."""

    def __init__(self, base: Path | None = None) -> None:
        self._base = base or shared_memory_folder()
        remove_orphans(self._base)
        hidden = Path(tempfile.mkdtemp(prefix=f".{PREFIX}{os.getpid()}-", dir=self._base))
        self._lock = (hidden / LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.folder = self._base / hidden.name[1:]  # under its own name only once it is locked
        hidden.rename(self.folder)
        self._held: dict[int, set[str]] = {}

    @property
    def owner(self) -> str:
        """Name of the run within shared memory."""
        return self.folder.name

    def note(self) -> None:
        """Remember what the run's living processes hold: call it when a process has come, or one has been lost."""
        this = psutil.Process()
        for process in [this, *this.children(recursive=True)]:
            with suppress(OSError):  # it ended meanwhile
                names = _blocks_of(process.pid)
                self._held.setdefault(process.pid, {_openmp_file(process.pid)}).update(names)
        with suppress(OSError):  # no room: then it is known to this process only
            (self.folder / HELD).write_text(json.dumps({pid: sorted(names) for pid, names in self._held.items()}))

    def sweep(self) -> None:
        """Remove what processes have left that are gone."""
        _remove_held(self._base, self._held)

    def close(self) -> None:
        """Remove everything; the run's processes have been told to end."""
        end = time.monotonic() + GRACE_S
        others = {pid: names for pid, names in self._held.items() if pid != os.getpid()}
        while time.monotonic() < end and any(_alive(pid) and _exist(self._base, n) for pid, n in others.items()):
            time.sleep(0.05)
        self.sweep()
        _remove_of(self._base, self.owner)
        self._lock.close()


def remove_orphans(base: Path = SHARED_MEMORY) -> None:
    """Remove what runs left that were killed outright: those whose lock nobody holds any more."""
    for folder in base.glob(f"{PREFIX}*-*"):
        try:
            with (folder / LOCK).open("r+") as lock:  # without this file it is no run's
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(OSError, ValueError):
                    held = json.loads((folder / HELD).read_text())
                    _remove_held(base, {int(pid): set(names) for pid, names in held.items()})
                _remove_of(base, folder.name)
        except OSError:
            continue  # another run's, which lives, or another user's


def remove_orphans_soon() -> None:
    """The same once the processes that have just been killed are gone."""
    time.sleep(DEATH_S)
    remove_orphans()


def _remove_of(base: Path, owner: str) -> None:
    for semaphore in base.glob(f"sem.{owner}-*"):
        semaphore.unlink(missing_ok=True)
    shutil.rmtree(base / owner, ignore_errors=True)


def _remove_held(base: Path, held: dict[int, set[str]]) -> None:
    living = {name for pid, names in held.items() if _alive(pid) for name in names}
    for name in {n for names in held.values() for n in names} - living:
        with suppress(OSError):
            (base / name).unlink()


def _exist(base: Path, names: set[str]) -> bool:
    return any((base / name).exists() for name in names)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _openmp_file(pid: int) -> str:
    return f"__KMP_REGISTERED_LIB_{pid}_{os.getuid()}"


def _blocks_of(pid: int) -> set[str]:
    """Names of the `multiprocessing.shared_memory` blocks that a process has mapped."""
    start = f"{SHARED_MEMORY}/psm_"
    paths = (line.partition("/")[1:] for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
    return {path.removeprefix(f"{SHARED_MEMORY}/") for path in map("".join, paths) if path.startswith(start)}
