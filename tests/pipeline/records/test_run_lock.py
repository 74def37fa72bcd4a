"""One process works on a run's folder: another is refused, and the lock ends with its process."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.records import run_folder as run_lock
from pipeline.records.run_folder import living_process, locked

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys
from pathlib import Path
from pipeline.records.run_folder import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock until its input ends."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def end(process):
    process.stdin.close()
    return process.wait()


def be_killed(process):
    process.kill()
    return process.wait()


@pytest.mark.parametrize("leave", [end, be_killed])
def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path, holder, leave, monkeypatch):
    monkeypatch.setattr(run_lock, "PATIENCE_S", 0.1)
    words = rf"run\.dir={tmp_path} is in use by process {holder.pid}; wait for it or choose another folder"
    with pytest.raises(ValueError, match=words), locked(tmp_path):
        pass
    assert living_process(tmp_path) == holder.pid
    leave(holder)
    with locked(tmp_path):
        assert living_process(tmp_path) == os.getpid()
    assert living_process(tmp_path) is None


def test_a_failing_run_leaves_the_lock_free(tmp_path):
    with pytest.raises(RuntimeError), locked(tmp_path):
        raise RuntimeError
    with locked(tmp_path):
        pass


def test_someone_who_looks_for_a_moment_is_waited_for(tmp_path, monkeypatch):
    """As `living_process` does, whose shared lock is gone in the next moment."""
    (tmp_path / "lock").write_text("77")
    looking = (tmp_path / "lock").open()
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(run_lock.time, "sleep", lambda _: looking.close())
    with locked(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())
