"""Errors of other processes as the user sees them."""

import errno
from pathlib import Path

import pytest
import ray
from ray.exceptions import RayTaskError

from pipeline.errors import RunFailed, disk_failure, filesystem_of
from pipeline.machine.remote import OUT_OF_MEMORY, as_local, not_started
from rollout.errors import EngineUnusable

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
    full = OSError(errno.ENOSPC, "No space left on device", "RUN/metrics.jsonl")
    sentence = (
        f"there was no room to write a file on {filesystem_of(Path('RUN'))} (RUN/metrics.jsonl: No space left on "
        "device); free some disk space"
    )
    for told in (disk_failure(full), as_local(remote(full, "/venv/x.py"))):
        assert isinstance(told, RunFailed) and str(told) == sentence
    assert disk_failure(OSError(errno.ENOENT, "gone")) is None
    assert disk_failure(RuntimeError("No space left on device")) is None


def test_full_shared_memory_is_told_with_its_own_remedy():
    told = disk_failure(OSError(errno.ENOSPC, "No space left on device", "/dev/shm/proxrl-1-x/v3/bucket-00000"))
    assert " on /dev/shm (" in str(told) and "--shm-size" in str(told)


def test_a_death_is_told_without_the_advice_about_memory():
    from pipeline.machine.remote import told

    detail = "Connection error code 2. End of file."
    assert (
        told(RuntimeError(f"The actor died.\nDetail: {detail} Some common causes include: (1) …"))
        == f"Detail: {detail}"
    )
    assert told(TimeoutError()) == "TimeoutError"


LIBRARY = "/venv/lib/vllm/x.py"
RAYS_ADVICE = (
    "Task was killed due to the node running low on memory.\nRefer to the docs … To adjust the kill threshold, "
    "set the environment variable `RAY_memory_usage_threshold` when starting Ray. " + "And more. " * 90
)


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (
            remote(EngineUnusable(0, "SafetensorError: header too large"), LIBRARY),
            RunFailed,
            "worker 0 did not start: SafetensorError: header too large (see logs/w.log)",
        ),
        (
            remote(FileNotFoundError("no adapter_model.safetensors"), LIBRARY),
            RunFailed,
            "worker 0 did not start: FileNotFoundError: no adapter_model.safetensors (see logs/w.log)",
        ),
        (
            remote(ValueError("rope_scaling should have a factor"), LIBRARY),
            RunFailed,
            "worker 0 did not start: ValueError: rope_scaling should have a factor (see logs/w.log)",
        ),
        (
            remote(ValueError("rollout.x=1 is wrong; use 2"), ROOT / "rollout/worker.py"),
            ValueError,
            "rollout.x=1 is wrong; use 2",
        ),
        (
            ray.exceptions.OutOfMemoryError(RAYS_ADVICE),
            RunFailed,
            f"worker 0 did not start: {OUT_OF_MEMORY} (see logs/w.log)",
        ),
        (TimeoutError("waited 600 s"), RunFailed, "worker 0 did not start: waited 600 s (see logs/w.log)"),
    ],
)
def test_what_fails_at_the_start_is_one_sentence(error, kind, sentence):
    failure = not_started("worker 0", error, "logs/w.log")
    assert type(failure) is kind and str(failure) == sentence and len(sentence) <= 300
