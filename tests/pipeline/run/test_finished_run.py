"""A run that is finished is not started again, and says so."""

import json
from contextlib import contextmanager
from dataclasses import asdict
from types import SimpleNamespace

import pipeline.run.loop
from configs.schema import Config
from pipeline.records.summary import Summary
from pipeline.run.loop import train

SUMMARY = Summary(
    name="a",
    num_steps=3,
    train_time_s=1.0,
    eval_before={"eval/reward": 0.25},
    eval_after={"eval/reward": 0.5},
    counts={},
    versions={},
    allowed_disagreements=[],
    run_dir="runs/a",
    metrics="runs/a/metrics.jsonl",
    checkpoint=None,
)


def test_the_same_command_after_the_end_starts_nothing(tmp_path, monkeypatch, capsys):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(asdict(SUMMARY)))
    folder = SimpleNamespace(root="runs/a", summary=path)

    @contextmanager
    def opened(config):
        yield SimpleNamespace(is_finished=True, version=3, folder=folder)

    monkeypatch.setattr(pipeline.run.loop, "open_run", opened)
    config = Config()
    config.train.total_steps = 3
    assert train(config) == SUMMARY
    said = " ".join(capsys.readouterr().out.split())
    assert "runs/a holds a finished run of 3 steps (train.total_steps=3); raise it to continue" in said


def test_the_end_is_told_with_what_changed_and_what_is_next():
    want = "finished after 3 steps; held-out reward 0.250 → 0.500; `proxrl report runs/a` shows its curves"
    assert SUMMARY.in_words() == want
