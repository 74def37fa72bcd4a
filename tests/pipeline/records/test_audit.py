import hashlib
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.records.audit import Held, audit, audit_run
from pipeline.records.checkpoints import CheckpointStore
from pipeline.records.run_state import RunState


def event(name, group, prompt, epoch=0, **reason):
    return {"event": name, "group_id": group, "prompt_id": prompt, "epoch": epoch, "version": 0, **reason}


DATASET = {"event": "dataset", "num_prompts": 2}
CLEAN = [
    DATASET,
    event("issued", "g0", "a"),
    event("issued", "g1", "b"),
    event("finished", "g1", "b"),
    event("requeued", "g0", "a", reason="worker_lost"),
    event("issued", "g2", "a"),
    event("consumed", "g1", "b"),
    event("finished", "g2", "a"),
    event("consumed", "g2", "a"),
    event("issued", "g3", "b", epoch=1),
]


def test_a_clean_run():
    result = audit(CLEAN)
    assert result.problems == []
    assert (result.num_issued, result.num_consumed, result.num_open) == (4, 2, 1)
    assert (result.requeued, result.dropped) == ({"worker_lost": 1}, {})


def test_the_command_says_why_prompts_were_asked_again_or_dropped(tmp_path):
    ledger = [
        *CLEAN,
        event("requeued", "g3", "b", 1, reason="stale"),
        event("issued", "g4", "b", 1),
        event("dropped", "g4", "b", 1, reason="zero_variance"),
    ]
    (tmp_path / "ledger.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ledger))
    (tmp_path / "config.yaml").write_text("train: {batch_size: 2}\n")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    shown = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout == (
        "2 prompts: 5 groups asked, 2 trained on, 2 (stale 1, worker lost 1) asked again, "
        "1 (zero variance 1) dropped, 0 open, 0 waiting\n"
    )
    (tmp_path / "metrics.jsonl").write_text('{"step": 2}\n')
    refused = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert refused.exit_code == 1
    assert "2 steps of 2 groups are recorded in metrics.jsonl, but 2 groups were trained on" in refused.stderr


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (
            [*CLEAN[:9], event("issued", "g4", "a"), event("consumed", "g4", "a")],
            "prompt a of epoch 0 was trained on twice",
        ),
        ([*CLEAN[:3], event("issued", "g4", "a")], "requested by g4 while g0 was still open"),
        ([*CLEAN[:5], event("issued", "g4", "b", 1)], "prompt a of epoch 0 was put back by g0 and skipped"),
        (
            [DATASET, event("issued", "g0", "a"), event("issued", "g1", "a", 1)],
            "1 of 2 prompts were never asked in epoch 0",
        ),
        ([DATASET, event("consumed", "g0", "a")], "group g0 was consumed without being open"),
    ],
)
def test_each_loss_is_named(rows, problem):
    assert any(problem in p for p in audit(rows).problems)


def test_a_group_that_never_ends_is_a_lost_prompt_of_a_finished_run():
    assert audit(CLEAN).problems == []
    assert audit(CLEAN, finished=True).problems == ["the run is finished, and g3 never ended"]


PUT_BACK = CLEAN[:5]  # b is in the buffer and a waits to be asked again


@pytest.mark.parametrize(
    ("groups", "waiting", "problem"),
    [
        ({"g1"}, {(0, "a")}, None),
        (set(), {(0, "a")}, "g1 had not ended and step-000001 does not hold them"),
        ({"g1", "g0"}, {(0, "a")}, "step-000001 holds g0, which had ended or was never asked"),
        ({"g1"}, set(), "prompt a of epoch 0: put back by the ledger or by step-000001, not by both"),
        ({"g1"}, {(0, "a"), (0, "b")}, "prompt b of epoch 0: put back by the ledger or by step-000001, not by both"),
    ],
)
def test_a_checkpoint_holds_what_the_ledger_has_left_open(groups, waiting, problem):
    later = [*PUT_BACK, event("issued", "g4", "a"), event("issued", "g5", "b", epoch=1)]
    held = Held("step-000001", len(PUT_BACK), frozenset(groups), frozenset(waiting))
    assert audit(later, [held]).problems == ([] if problem is None else [problem])


def run_with_checkpoint(folder, rows, state_of, rest=()):
    ledger = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "ledger.jsonl").write_text(ledger + "".join(json.dumps(row) + "\n" for row in rest))
    (folder / "config.yaml").write_text("train: {batch_size: 2}\n")
    (folder / "metrics.jsonl").write_text('{"step": 1}\n')
    state = RunState(
        version=1, cursor={"returned": []}, next_group=4, buffered=[], in_flight=[("g3", 1, "b")], counts={},
        ledger_bytes=len(ledger), metrics_bytes=12, train_time_s=1.0,
        ledger_sha256=hashlib.sha256(ledger.encode()).hexdigest(),
    )  # fmt: skip
    store = CheckpointStore(folder / "checkpoints", keep=1)
    partial = store.begin(1)
    for part in ("policy", "trainer"):
        (partial / part / "state.bin").write_bytes(b"x")
    store.finish(partial, 1, state_of(state).to_json())


def test_a_run_is_compared_with_its_checkpoints(tmp_path):
    run_with_checkpoint(tmp_path, CLEAN, lambda state: state, rest=[event("finished", "g3", "b", 1)])
    assert audit_run(tmp_path).problems == []


def test_a_group_in_flight_that_a_checkpoint_has_forgotten_is_named(tmp_path):
    run_with_checkpoint(tmp_path, CLEAN, lambda state: replace(state, in_flight=[]))
    assert audit_run(tmp_path).problems == ["g3 had not ended and step-000001 does not hold them"]


def test_a_ledger_that_was_changed_after_its_checkpoint_is_named(tmp_path):
    run_with_checkpoint(tmp_path, CLEAN, lambda state: state)
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace("worker_lost", "worker_gone"))
    assert audit_run(tmp_path).problems == ["the ledger no longer holds what it held at step-000001"]
    # A damaged checkpoint was skipped, and the ledger resumes from another.
    (tmp_path / "checkpoints" / "step-000001" / "policy" / "state.bin").write_bytes(b"y")
    assert audit_run(tmp_path).problems == []
