"""What a run leaves in shared memory is removed by the run or by the next one; what is another's stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.machine.processes import ENV_LOG_FILE, ENV_OWNER
from pipeline.machine.shared_memory import SHARED_MEMORY, SharedMemory, remove_orphans

ROOT = Path(__file__).resolve().parents[3]

HOLD_A_LOCK = """
import sys, time
from multiprocessing import get_context
from pathlib import Path
def hold():
    lock = get_context("spawn").Lock()
    Path(sys.argv[1]).write_text("ready")
    time.sleep(600)
if __name__ == "__main__":
    from pipeline.machine.processes import set_up
    set_up()
    get_context("spawn").Process(target=hold).start()
"""
HOLD_A_BLOCK = """
import sys, time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
block = SharedMemory(create=True, size=64)
Path(sys.argv[1]).write_text(block.name)
time.sleep(600)
"""


@pytest.fixture
def started(tmp_path):
    """Runs a script as a child and returns what it wrote once it was ready; killed at the end with all it started."""
    children = []

    def start(script, **env):
        file, told = tmp_path / f"script{len(children)}.py", tmp_path / f"told{len(children)}"
        file.write_text(script)
        command = [sys.executable, str(file), str(told)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | env
        children.append(subprocess.Popen(command, env=environment, start_new_session=True))
        end = time.monotonic() + 60
        while not (told.exists() and told.read_text()):
            assert time.monotonic() < end and children[-1].poll() is None
            time.sleep(0.02)
        return children[-1], told.read_text()

    yield start
    for child in children:
        kill(child)


def kill(child):
    """Outright, with all that it started."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def orphaned(base):
    """Shared memory of a run that was killed outright: the system lets go of its lock, and that is all."""
    memory = SharedMemory(base)
    (memory.folder / "v7").mkdir()
    memory.note()
    memory._lock.close()
    return memory


def test_a_run_removes_its_own_and_only_its_own(tmp_path):
    others = [tmp_path / name for name in ("sem.mp-abc", "psm_abc", "__KMP_REGISTERED_LIB_1_0", "proxrl-1-x", "held")]
    for path in others[:3]:
        path.touch()
    for path in others[3:]:
        path.mkdir()
    memory = SharedMemory(tmp_path)
    (tmp_path / f"sem.{memory.owner}-q1w2").touch()
    (memory.folder / "v1").mkdir()
    living = SharedMemory(tmp_path)
    (tmp_path / f"sem.{living.owner}-q1w2").touch()
    memory.close()
    assert set(tmp_path.iterdir()) == {*others, living.folder, tmp_path / f"sem.{living.owner}-q1w2"}
    living.close()
    assert set(tmp_path.iterdir()) == set(others)


def test_the_next_run_removes_what_a_killed_one_left(tmp_path):
    dead = orphaned(tmp_path)
    (tmp_path / f"sem.{dead.owner}-q1w2").touch()
    following = SharedMemory(tmp_path)
    assert list(tmp_path.iterdir()) == [following.folder]
    following.close()


def test_orphans_go_and_living_runs_stay(tmp_path):
    living = SharedMemory(tmp_path)
    dead = orphaned(tmp_path)
    (tmp_path / f"sem.{dead.owner}-q1w2").touch()
    remove_orphans(tmp_path)
    assert list(tmp_path.iterdir()) == [living.folder]
    living.close()


def test_a_semaphore_of_a_killed_process_bears_the_runs_name_and_is_removed(started):
    memory = SharedMemory()
    try:
        child, _ = started(HOLD_A_LOCK, **{ENV_OWNER: memory.owner})
        kill(child)
        assert list(SHARED_MEMORY.glob(f"sem.{memory.owner}-*")), "made by a process that a worker started"
    finally:
        memory.close()
    assert not list(SHARED_MEMORY.glob(f"*{memory.owner}*"))


def test_on_a_cluster_a_process_has_a_name_of_its_own_and_anybody_removes_what_it_left(started, tmp_path):
    child, _ = started(HOLD_A_LOCK, **{ENV_LOG_FILE: str(tmp_path / "log")})
    own = f"proxrl-{child.pid}-"
    assert list(SHARED_MEMORY.glob(f"sem.{own}*")) and list(SHARED_MEMORY.glob(f"{own}*"))
    remove_orphans()
    assert list(SHARED_MEMORY.glob(f"sem.{own}*")), "it lives"
    kill(child)
    remove_orphans()
    assert not list(SHARED_MEMORY.glob(f"*{own}*"))


def test_blocks_of_killed_processes_are_removed_and_those_of_living_ones_stay(started):
    memory = SharedMemory()
    dying, name = started(HOLD_A_BLOCK)
    living, other = started(HOLD_A_BLOCK)
    openmp = SHARED_MEMORY / f"__KMP_REGISTERED_LIB_{dying.pid}_{os.getuid()}"
    try:
        openmp.touch()
        memory.note()
        memory.sweep()
        assert (SHARED_MEMORY / name).exists() and openmp.exists()
        kill(dying)
        assert (SHARED_MEMORY / name).exists()
        memory.sweep()
        assert not (SHARED_MEMORY / name).exists() and not openmp.exists()
        assert (SHARED_MEMORY / other).exists()
        kill(living)
    finally:
        openmp.unlink(missing_ok=True)
        memory.close()
    assert not (SHARED_MEMORY / other).exists()
