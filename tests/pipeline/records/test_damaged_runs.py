"""The folder of a run that was damaged, or is started again with other settings: nothing is lost without a word."""

import errno
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

import pipeline.run.run
from pipeline.records.audit import audit_run
from pipeline.records.checkpoints import Checkpoint
from pipeline.records.json_lines import read_json_lines
from pipeline.run.run import open_run
from rollout.data.prompt_cursor import PromptCursor
from tests.pipeline.small_runs import small_config

BATCH = 4
STEPS = 2


def config(inputs, run_dir, **settings):
    settings = {"train__total_steps": STEPS, "checkpoint__every": 1, "checkpoint__keep": 9} | settings
    return small_config(inputs, run_dir, **settings)


@pytest.fixture(scope="module")
def finished(inputs, tmp_path_factory):
    """A run of two steps, with a checkpoint after each, that no engine has seen."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    with open_run(config(inputs, folder)) as run:
        rollouts = run.make_rollouts(SimpleNamespace(slots=[]))
        cursor = PromptCursor(run.train_prompts, run.config.run.seed)
        for step in range(1, STEPS + 1):
            for i in range(BATCH):
                _, prompt = cursor.next()
                for event in ("issued", "finished", "consumed"):
                    run.ledger.record(event, f"g{step}-{i}", prompt.prompt_id, 0, step - 1)
            run.version = step
            run.metrics.write({"step": step, "rl/reward": 0.5})
            (run.folder.trajectories / f"step-{step:06d}.jsonl").write_text("{}\n")
            partial = run.store.begin(step)
            for part in ("policy", "trainer"):
                (partial / part / "state.bin").write_bytes(bytes([step]))
            run.store.finish(partial, step, run.state(rollouts).to_json())
        run.write_summary()
    return folder


@pytest.fixture
def run_dir(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "lock"}


def refused_and_untouched(config, run_dir, words):
    before = contents(run_dir)
    with pytest.raises(ValueError, match=words), open_run(config):
        pass
    assert contents(run_dir) == before


def steps(run_dir):
    return [row["step"] for row in read_json_lines(run_dir / "metrics.jsonl")]


def cut(path, num_bytes):
    path.write_bytes(path.read_bytes()[:-num_bytes])


def test_a_whole_one_is_finished_and_its_audit_passes(inputs, run_dir):
    with open_run(config(inputs, run_dir)) as run:
        assert run.is_finished and run.version == STEPS
    assert audit_run(run_dir).problems == []


def test_what_can_hold_tokens_is_for_the_owner_alone(finished):
    for name in ("config.yaml", "summary.json"):
        assert (finished / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["metrics.jsonl", "ledger.jsonl"])
def test_records_that_were_cut_lead_to_an_older_checkpoint(inputs, run_dir, name, capsys):
    cut(run_dir / name, 10)
    with open_run(config(inputs, run_dir)) as run:
        assert run.version == 1 and not run.is_finished
    said = capsys.readouterr().out
    assert f"step-000002 is damaged ({name} has lost 10 of the " in said
    assert steps(run_dir) == [1] and b"\0" not in (run_dir / name).read_bytes()
    assert [p.name for p in (run_dir / "trajectories").iterdir()] == ["step-000001.jsonl"]


def test_a_damaged_line_leads_to_the_checkpoint_before_it(inputs, run_dir, capsys):
    path = run_dir / "metrics.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"\0" * (len(second) - 1) + b"\n")
    with open_run(config(inputs, run_dir)) as run:
        assert run.version == 1
    assert "step-000002 is damaged (metrics.jsonl is damaged: line 2 is not one JSON object)" in capsys.readouterr().out


def test_a_run_state_that_cannot_be_read_leads_to_the_checkpoint_before_it(inputs, run_dir, capsys, monkeypatch):
    whole = Checkpoint.run_state

    def read(checkpoint):
        if checkpoint.step == 2:
            raise OSError(errno.EIO, "Input/output error")
        return whole(checkpoint)

    monkeypatch.setattr(Checkpoint, "run_state", read)
    with open_run(config(inputs, run_dir)) as run:
        assert run.version == 1
    assert "step-000002 is damaged (its run.json cannot be read)" in capsys.readouterr().out


def test_a_tail_of_zeros_leads_to_the_checkpoint_before_it(inputs, run_dir, capsys):
    path = run_dir / "ledger.jsonl"
    path.write_bytes(path.read_bytes()[:-20] + b"\0" * 20)
    with open_run(config(inputs, run_dir)) as run:
        assert run.version == 1
    assert (
        "step-000002 is damaged (ledger.jsonl is damaged: its last line then has no end now)" in capsys.readouterr().out
    )


@pytest.mark.parametrize("name", ["metrics.jsonl", "ledger.jsonl"])
def test_records_that_are_gone_are_never_written_over(inputs, run_dir, name):
    (run_dir / name).unlink()
    refused_and_untouched(
        config(inputs, run_dir), run_dir, r"no whole checkpoint is left in .*restore .*another run\.dir"
    )


def test_a_run_whose_checkpoints_are_all_damaged_is_not_started_anew(inputs, run_dir):
    for file in (run_dir / "checkpoints").glob("*/policy/state.bin"):
        file.write_bytes(b"")
    refused_and_untouched(
        config(inputs, run_dir), run_dir, r"no whole checkpoint is left in .*differs from its checksum"
    )


def test_a_finished_run_without_checkpoints_is_not_started_anew(inputs, run_dir):
    shutil.rmtree(run_dir / "checkpoints")
    (run_dir / "checkpoints").mkdir()
    refused_and_untouched(config(inputs, run_dir), run_dir, "holds a finished run and no checkpoint to resume from")
    (run_dir / "summary.json").unlink()
    refused_and_untouched(config(inputs, run_dir), run_dir, "has recorded 2 steps and holds no checkpoint")


def test_a_run_that_ended_before_its_first_checkpoint_starts_anew(inputs, run_dir):
    shutil.rmtree(run_dir / "checkpoints")
    (run_dir / "summary.json").unlink()
    path = run_dir / "config.yaml"
    path.write_text(path.read_text().replace("every: 1\n", "every: 5\n"))
    with open_run(config(inputs, run_dir)) as run:
        assert run.version == 0 and run.checkpoint is None
    assert steps(run_dir) == [] and not list((run_dir / "trajectories").iterdir())


def test_more_steps_make_a_finished_run_unfinished(inputs, run_dir):
    with open_run(config(inputs, run_dir, train__total_steps=STEPS + 1)) as run:
        assert not run.is_finished and run.version == STEPS
        assert not (run_dir / "summary.json").exists()


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"num_steps": 2}'])
def test_a_damaged_summary_is_written_again(inputs, run_dir, content):
    (run_dir / "summary.json").write_text(content)
    with open_run(config(inputs, run_dir)) as run:
        assert not run.is_finished and run.version == STEPS
        assert run.write_summary().num_steps == STEPS
        assert run.is_finished


def test_the_summary_of_fewer_steps_does_not_finish_a_run(inputs, run_dir):
    """As when a run of more steps was killed between its last checkpoint and its summary."""
    summary = json.loads((run_dir / "summary.json").read_text())
    (run_dir / "summary.json").write_text(json.dumps(summary | {"num_steps": 1}))
    with open_run(config(inputs, run_dir)) as run:
        assert not run.is_finished


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dataset__limit": 8}, r"dataset\.limit=8 gives other prompts than those of the run in .*, where it was null"),
        ({"dataset__prompt_suffix": "x"}, r"dataset\.prompt_suffix=x gives other prompts .*, where it was ''"),
        ({"run__seed": 2}, r"run\.seed=2 differs from 1"),
        ({"train__batch_size": 2}, r"train\.batch_size=2 differs from 4"),
    ],
)
def test_what_may_not_change_is_named_before_anything_is_written(inputs, run_dir, settings, words):
    refused_and_untouched(config(inputs, run_dir, **settings), run_dir, words)


def test_a_data_set_that_has_changed_is_refused(inputs, run_dir):
    path = run_dir.parent / "other.jsonl"
    model, data = inputs
    path.write_text("".join(reversed(data.read_text().splitlines(keepends=True))))
    changed = config((model, data), run_dir)
    data_before = data.read_text()
    try:
        data.write_text(path.read_text())
        refused_and_untouched(changed, run_dir, r"dataset\.path=.* holds other prompts than when the run in .* began")
    finally:
        data.write_text(data_before)


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl", "ledger.jsonl", "config.yaml"])
def test_a_folder_where_a_file_belongs_is_one_sentence(inputs, tmp_path, name):
    (tmp_path / "run" / name).mkdir(parents=True)
    words = rf"run\.dir={tmp_path}/run cannot be used: Is a directory: .*{name}.*; move or delete what is in its place"
    with pytest.raises(ValueError, match=words), open_run(config(inputs, tmp_path / "run")):
        pass


def test_a_tracker_that_is_missing_changes_nothing(inputs, run_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    settings = config(inputs, run_dir, train__total_steps=9, trackers__wandb_project="p")
    refused_and_untouched(settings, run_dir, "wandb")


def test_a_full_disk_is_told_as_one(inputs, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "config.yaml")

    monkeypatch.setattr(pipeline.run.run, "save_config", full)
    with (
        pytest.raises(ValueError, match=r"there was no room to write a file.*free some disk space"),
        open_run(config(inputs, tmp_path / "run")),
    ):
        pass


def ledger_without(run_dir, event):
    rows = read_json_lines(run_dir / "ledger.jsonl")
    victim = max(i for i, row in enumerate(rows) if row["event"] == event)
    (run_dir / "ledger.jsonl").write_text("".join(json.dumps(r) + "\n" for i, r in enumerate(rows) if i != victim))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d: cut(d / "ledger.jsonl", 10), "2 steps of 4 groups are recorded in metrics.jsonl, but 7 groups were"),
        (lambda d: (d / "ledger.jsonl").write_text(""), "does not begin with the size of the data set"),
        (lambda d: ledger_without(d, "dataset"), "does not begin with the size of the data set"),
        (lambda d: ledger_without(d, "consumed"), "but 7 groups were trained on by the ledger"),
        (lambda d: ledger_without(d, "issued"), "was consumed without being open"),
        (lambda d: cut(d / "metrics.jsonl", 10), "1 steps of 4 groups are recorded in metrics.jsonl, but 8 groups"),
        (lambda d: (d / "ledger.jsonl").write_bytes(b"\xff\n"), "ledger.jsonl is damaged: line 1"),
        (lambda d: (d / "ledger.jsonl").write_text('{"event": "issued"}\n'), "line 1 of the ledger is not an event"),
        (lambda d: (d / "metrics.jsonl").write_text("5\n"), "metrics.jsonl is damaged: line 1"),
        (lambda d: (d / "config.yaml").write_text("a: ["), "names no train.batch_size"),
        (lambda d: (d / "config.yaml").write_text("train: 5"), "names no train.batch_size"),
        (lambda d: (d / "metrics.jsonl").write_text('{"step": null}\n'), "0 steps of 4 groups are recorded"),
        (
            lambda d: (d / "ledger.jsonl").write_text('{"event": "dataset", "num_prompts": "x"}\n'),
            "line 1 of the ledger",
        ),
    ],
)
def test_an_audit_proves_nothing_from_damaged_files(run_dir, damage, words):
    damage(run_dir)
    assert any(words in problem for problem in audit_run(run_dir).problems), audit_run(run_dir).problems


def test_a_run_that_was_stopped_in_a_step_passes_its_audit(run_dir):
    """The batch of that step was taken, and the step never recorded."""
    (run_dir / "summary.json").unlink()
    path = run_dir / "metrics.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert audit_run(run_dir).problems == []


def test_the_fields_of_a_summary_are_those_that_are_read(finished):
    from pipeline.records.summary import read_summary

    assert asdict(read_summary(finished / "summary.json"))["num_steps"] == STEPS
