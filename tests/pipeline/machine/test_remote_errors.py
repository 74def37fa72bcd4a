"""Errors of other processes as the user sees them."""

import errno
from pathlib import Path

import pytest
from ray.exceptions import RayTaskError

from pipeline.errors import RunFailed, disk_failure
from pipeline.machine.remote import as_local

ROOT = Path(__file__).resolve().parents[3]


def remote(cause, innermost):
    text = f'Traceback:\n  File "/somewhere/ray/_raylet.pyx", line 1, in execute\n  File "{innermost}", line 7, in f\n'
    return RayTaskError("f", text, cause).as_instanceof_cause()


def test_a_mistake_of_the_user_found_in_another_process_is_one_sentence():
    told = as_local(remote(ValueError("rollout.x=1 is wrong; use 2"), ROOT / "rollout/engines/v1_current/adapter.py"))
    assert type(told) is ValueError and str(told) == "rollout.x=1 is wrong; use 2"


@pytest.mark.parametrize("cause", [ValueError("shapes differ"), RuntimeError("boom")])
def test_a_defect_keeps_its_remote_traceback(cause):
    error = remote(cause, "/venv/lib/vllm/x.py")
    assert as_local(error) is error


def test_a_full_disk_is_one_sentence_wherever_it_was_met():
    local = disk_failure(OSError(errno.ENOSPC, "No space left on device", "RUN/metrics.jsonl"))
    assert isinstance(local, RunFailed) and "RUN/metrics.jsonl" in str(local) and "free some disk space" in str(local)
    told = as_local(remote(RuntimeError("I/O error: No space left on device (os error 28)"), "/venv/x.py"))
    assert isinstance(told, RunFailed) and "no room" in str(told)
    assert disk_failure(OSError(errno.ENOENT, "gone")) is None


def test_a_death_is_told_without_the_advice_about_memory():
    from pipeline.machine.remote import told

    detail = "Connection error code 2. End of file."
    assert (
        told(RuntimeError(f"The actor died.\nDetail: {detail} Some common causes include: (1) …"))
        == f"Detail: {detail}"
    )
    assert told(TimeoutError()) == "TimeoutError"
