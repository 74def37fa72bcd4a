import errno
import json
import os

import pytest

from pipeline.records import checkpoints
from pipeline.records.checkpoints import CheckpointStore
from pipeline.records.run_state import RunState
from tests.pipeline.groups import group


def write(store: CheckpointStore, step: int):
    partial = store.begin(step)
    (partial / "policy" / "weights.bin").write_bytes(bytes([step]))
    (partial / "trainer" / "state.bin").write_bytes(b"state")
    return store.finish(partial, step, {"version": step})


def test_keeps_the_newest_and_finds_the_newest_whole(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step in (1, 2, 3):
        write(store, step)
    assert [c.step for c in store.all()] == [2, 3]
    found, passed_over = store.newest_whole()
    assert found is not None and found.run_state() == {"version": 3} and passed_over == []


def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path):
    store = CheckpointStore(tmp_path, keep=3)
    for step in (1, 2, 3):
        write(store, step)
    (tmp_path / "step-000003" / "policy" / "weights.bin").write_bytes(b"")
    (tmp_path / "step-000002" / "trainer" / "state.bin").unlink()
    found, passed_over = store.newest_whole()
    assert found is not None and found.step == 1
    assert "policy/weights.bin differs from its checksum" in passed_over[0]
    assert "trainer/state.bin is missing" in passed_over[1]


def test_a_checkpoint_that_was_cut_short_is_never_seen(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    store.begin(5)
    assert store.all() == []
    assert store.newest_whole() == (None, [])


def test_what_was_cut_short_is_removed_and_nothing_else(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    write(store, 4)
    for step in (5, 123456):
        (store.begin(step) / "policy" / "weights.bin").write_bytes(b"half")
    (tmp_path / "notes.partial").write_text("")
    store.remove_partial()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.partial", "step-000004"]
    assert store.all()[0].damage() is None


@pytest.mark.parametrize("failing", ["_sha256", "Path.is_file"])
def test_a_checkpoint_that_cannot_be_read_is_passed_over(tmp_path, monkeypatch, failing):
    store = CheckpointStore(tmp_path, keep=2)
    for step in (1, 2):
        write(store, step)
    unreadable = tmp_path / "step-000002" / "policy" / "weights.bin"
    whole = checkpoints._sha256 if failing == "_sha256" else checkpoints.Path.is_file

    def read(path):
        if path == unreadable:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return whole(path)

    monkeypatch.setattr(f"pipeline.records.checkpoints.{failing}", read)
    found, passed_over = store.newest_whole()
    assert found is not None and found.step == 1
    assert passed_over == [f"{tmp_path / 'step-000002'} is damaged (policy/weights.bin cannot be read); it is skipped"]


def test_run_state_survives_json():
    state = RunState(
        version=3,
        cursor={"epoch": 1},
        next_group=12,
        buffered=[group("g1", (2, 3), (3,))],
        in_flight=[("g9", 1, "p7")],
        ledger_bytes=10,
        metrics_bytes=20,
        counts={"issued": 12},
        train_time_s=1.5,
    )
    assert RunState.from_json(json.loads(json.dumps(state.to_json()))) == state


def test_damaged_newer_checkpoints_do_not_push_out_whole_ones(tmp_path):
    store = CheckpointStore(tmp_path, keep=1)
    for step in (2, 5):
        write(store, step)
    (tmp_path / "step-000005" / "policy" / "weights.bin").write_bytes(b"")
    write(store, 4)  # a run that skipped step 5
    assert [c.step for c in store.all()] == [4]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe{", b"[]", b"[1]", b"5", b"{}", b'{"run.json": "0", "policy/a": "0"}']
)
def test_a_manifest_that_lists_nothing_whole_is_damage(tmp_path, content):
    checkpoint = write(CheckpointStore(tmp_path, keep=2), 1)
    assert checkpoint.damage() is None
    (checkpoint.path / "manifest.json").write_bytes(content)
    assert "its manifest is" in str(checkpoint.damage())


def test_a_checkpoint_that_does_not_fit_the_rest_of_the_run_is_passed_over(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step in (1, 2):
        write(store, step)
    found, passed_over = store.newest_whole(lambda c: "too new" if c.step == 2 else None)
    assert found is not None and found.step == 1
    assert passed_over == [f"{tmp_path / 'step-000002'} is damaged (too new); it is skipped"]


def test_a_checkpoint_is_on_the_disk_before_it_bears_its_name(tmp_path, monkeypatch):
    written, named = [], []
    monkeypatch.setattr(checkpoints, "to_disk", written.append)
    monkeypatch.setattr(checkpoints.os, "replace", lambda *paths: (named.append(list(written)), os.rename(*paths)))
    write(CheckpointStore(tmp_path, keep=2), 1)
    before = {p.name for p in named[-1]}
    assert before >= {
        "weights.bin",
        "state.bin",
        "policy",
        "trainer",
        "run.json",
        "manifest.json",
        ".step-000001.partial",
    }
    assert written[-1] == tmp_path
