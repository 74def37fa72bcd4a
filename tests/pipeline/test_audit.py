import json

import pytest
from typer.testing import CliRunner

from pipeline.audit import audit
from pipeline.cli import app


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
        ([*CLEAN[:3], event("issued", "g4", "a")], "asked by g4 while g0 was still open"),
        ([*CLEAN[:5], event("issued", "g4", "b", 1)], "prompt a of epoch 0 was put back by g0 and passed over"),
        (
            [DATASET, event("issued", "g0", "a"), event("issued", "g1", "a", 1)],
            "1 of 2 prompts were never asked in epoch 0",
        ),
        ([DATASET, event("consumed", "g0", "a")], "group g0 was consumed without being open"),
    ],
)
def test_each_loss_is_named(rows, problem):
    assert any(problem in p for p in audit(rows).problems)
