"""A chat template that writes the date: a run resumed on another day goes on with the prompts it began with."""

import json
from datetime import datetime
from types import SimpleNamespace

import pytest

import pipeline.run.run
from pipeline.run.run import open_run
from tests.faults.run_process import make_inputs
from tests.pipeline.small_runs import small_config

TEMPLATE = "{{ strftime_now('%d') }} {{ messages[-1]['content'] }}"


@pytest.fixture
def dated(tmp_path):
    """A model whose tokenizer's template writes the day of the month."""
    model, data = make_inputs(tmp_path, num_prompts=4)
    (model / "chat_template.jinja").write_text(TEMPLATE)
    return model, data


def on(monkeypatch, day):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 3, day)

    monkeypatch.setattr(pipeline.run.run, "datetime", Clock)


def checkpoint(run):
    partial = run.store.begin(1)
    for part in ("policy", "trainer"):
        (partial / part / "state.bin").write_bytes(b"1")
    run.version = 1
    run.store.finish(partial, 1, run.state(run.make_rollouts(SimpleNamespace(slots=[]))).to_json())


def test_the_day_of_a_resume_changes_no_prompt(dated, tmp_path, monkeypatch):
    config = small_config(dated, tmp_path / "run", train__total_steps=2, train__batch_size=2)
    on(monkeypatch, 1)
    with open_run(config) as run:
        run.ledger.record("issued", "g", "0", 0, 0)
        began = [p.token_ids for p in run.train_prompts]
        checkpoint(run)
    on(monkeypatch, 20)
    with open_run(config) as run:
        assert run.restored is not None and [p.token_ids for p in run.train_prompts] == began
        assert run.began == datetime(2026, 3, 1)
    fresh = small_config(dated, tmp_path / "fresh", train__total_steps=2, train__batch_size=2)
    with open_run(fresh) as run:  # the template does read the clock
        assert [p.token_ids for p in run.train_prompts] != began


def test_other_rows_are_still_refused(dated, tmp_path, monkeypatch):
    config = small_config(dated, tmp_path / "run", train__total_steps=2, train__batch_size=2)
    with open_run(config) as run:
        checkpoint(run)
    rows = [json.loads(line) for line in dated[1].read_text().splitlines()]
    rows[0]["answer"] += "1"
    dated[1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match="holds other prompts than when the run in"), open_run(config):
        pass
