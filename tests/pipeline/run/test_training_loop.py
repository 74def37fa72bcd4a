"""What is recorded and saved when the loop fails between two steps, with parts whose answers the test decides."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import pipeline.run.loop
from actor.metrics import Metric
from pipeline.errors import RunFailed, TrainerLost
from pipeline.records.summary import read_summary
from pipeline.run.held_out import Evaluation
from pipeline.run.loop import TrainingLoop
from pipeline.run.run import open_run
from pipeline.workers.slot import NoWorkersLeft
from tests.faults.run_process import steps
from tests.pipeline.groups import group
from tests.pipeline.small_runs import small_config

NONE_LEFT = NoWorkersLeft("no rollout worker is left")
SKIPPED = "ppo_actor/update/num_skipped_updates"


class Console:
    """Takes everything and keeps the notes."""

    def __init__(self):
        self.notes = []
        self.note = self.notes.append

    def __getattr__(self, name):
        return lambda *arguments: None


class Trainer:
    """Writes one byte for a policy and one for its state; `fails_at` is the step that fails."""

    def __init__(self, fails_at=None):
        self.fails, self.fails_at = None, fails_at

    async def step(self, version, shares, denominators):
        if version + 1 == self.fails_at:
            raise RunFailed("in the middle of a step")
        return SimpleNamespace(metrics={SKIPPED: mean_of(0)}, timings={}, proximal_logprobs=None)

    async def save_policy(self, folder):
        if self.fails:
            raise self.fails
        Path(folder, "model.safetensors").write_bytes(b"p")

    async def save_state(self, folder):
        Path(folder, "state.bin").write_bytes(b"s")

    async def load_state(self, folder):
        pass


class Sync:
    """Every worker holds at once what is published."""

    async def publish(self, version):
        return 0.0

    def start_update(self, on_done, on_failed):
        on_done()

    async def settle_update(self):
        pass

    async def finish_update(self):
        return []


@pytest.fixture(autouse=True)
def no_batch(monkeypatch):
    async def prepare_batch(config, groups, trainer):
        return SimpleNamespace(shares=[], denominators=None, advantage_metrics={}, num_tokens=2)

    monkeypatch.setattr(pipeline.run.loop, "prepare_batch", prepare_batch)


class Loop(TrainingLoop):
    """Batches of one group that is there at once; `fails` holds what befalls the waits and evaluations of a step."""

    async def _next_groups(self, version):
        if error := self.fails.pop(("wait", version + 1), None):
            raise error
        self.rollouts.counts["rewards_failed"] += version
        return [group(f"g{version}", (version, version))]

    async def _evaluate(self, step):
        self.evaluated.append(step)
        if error := self.fails.pop(("evaluate", step), None):
            raise error
        return Evaluation(0.1 * step, 0.0, 4, 2.0)


def go(inputs, run_dir, fails=None, trainer=None, **settings):
    """The loop as `train` runs it; returns it and the failure that ended it."""
    data = inputs[1]
    (data.parent / "held_out.jsonl").write_text(data.read_text())
    settings = {"eval__num_samples": 4, "eval__path": data.parent / "held_out.jsonl", "eval__every": 2} | settings
    settings = {"train__total_steps": 4, "checkpoint__every": 100} | settings
    with open_run(small_config(inputs, run_dir, **settings)) as run:
        fleet = SimpleNamespace(slots=[], num_restarts=0)
        parts = SimpleNamespace(fleet=fleet, trainer=trainer or Trainer(), sync=Sync())
        loop = Loop(run, parts, Console())
        loop.fails, loop.evaluated = dict(fails or {}), []
        loop.rollouts.run = lambda: asyncio.sleep(0)
        try:
            asyncio.run(pipeline.run.loop.run_to_the_end(loop))
        except RunFailed as error:
            return loop, error
        return loop, None


def saved(run_dir):
    return sorted(p.name for p in (run_dir / "checkpoints").iterdir())


def test_the_last_finished_step_is_saved_where_no_worker_is_left(inputs, tmp_path):
    assert go(inputs, tmp_path / "run", {("wait", 4): NONE_LEFT})[1] is NONE_LEFT
    assert saved(tmp_path / "run") == ["step-000003"]
    loop, failure = go(inputs, tmp_path / "run")
    assert failure is None and [r["step"] for r in steps(tmp_path / "run")] == [1, 2, 3, 4]
    assert loop.evaluated == [4], "a resumed policy is not the initial one"


def test_a_step_whose_evaluation_fails_was_made(inputs, tmp_path):
    assert go(inputs, tmp_path / "run", {("evaluate", 4): NONE_LEFT})[1] is NONE_LEFT
    assert saved(tmp_path / "run") == ["step-000004"] and len(steps(tmp_path / "run")) == 4
    loop, failure = go(inputs, tmp_path / "run")
    assert failure is None and loop.evaluated == [4], "what had failed is made up for"
    assert read_summary(tmp_path / "run" / "summary.json").eval_after["eval/reward"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("fails", "fails_at", "why"),
    [
        ({}, 3, "the batch is taken, and not trained on"),
        ({("wait", 3): TrainerLost("a trainer rank died")}, None, "there is nobody to save"),
        ({("wait", 1): NONE_LEFT}, None, "nothing is trained yet"),
    ],
)
def test_nothing_is_saved_where_trainer_and_records_differ(inputs, tmp_path, fails, fails_at, why):
    assert go(inputs, tmp_path / "run", fails, Trainer(fails_at))[1] is not None
    assert saved(tmp_path / "run") == [], why


def test_failed_rewards_are_recorded_once_each(inputs, tmp_path):
    """Of dropped groups too, which no step has trained on: here one more at every version."""
    go(inputs, tmp_path / "run", {("wait", 4): NONE_LEFT})
    go(inputs, tmp_path / "run")
    assert [row["rl/reward_failures"] for row in steps(tmp_path / "run")] == [0, 1, 2, 3]


def test_a_disagreement_is_not_saved(inputs, tmp_path, monkeypatch):
    differ_at_3 = lambda row, setting: "they differ" if row["step"] == 3 else None  # noqa: E731
    monkeypatch.setattr(pipeline.run.loop, "disagreement", differ_at_3)
    failure = go(inputs, tmp_path / "run", consistency__action="stop")[1]
    assert str(failure) == "they differ" and saved(tmp_path / "run") == []


def test_a_failure_to_save_does_not_hide_why_the_run_ends(inputs, tmp_path):
    trainer = Trainer()
    trainer.fails = OSError(28, "No space left on device")
    loop, failure = go(inputs, tmp_path / "run", {("wait", 3): NONE_LEFT}, trainer=trainer)
    assert failure is NONE_LEFT
    assert any("state after step 2 could not be saved" in n and "No space left" in n for n in loop.console.notes)


def test_evaluation_begun_at_a_resume_is_not_that_of_the_initial_policy(inputs, tmp_path):
    go(inputs, tmp_path / "run", {("wait", 3): NONE_LEFT}, eval__num_samples=0)
    go(inputs, tmp_path / "run")
    summary = read_summary(tmp_path / "run" / "summary.json")
    assert summary.eval_before is None and summary.eval_after["eval/reward"] == pytest.approx(0.4)


def test_a_run_that_learns_nothing_any_more_stops_with_its_batch_saved(inputs, tmp_path, monkeypatch):
    replays = []

    async def save_replay(folder, config, version, groups, trainer):
        replays.append((version, groups))
        return folder / "step"

    monkeypatch.setattr(pipeline.run.loop, "save_replay", save_replay)
    settings = {"actor__optimizer__max_skipped_steps": 3}
    loop, _ = go(inputs, tmp_path / "run", {("wait", 1): NONE_LEFT}, **settings)

    async def skip(*steps):
        for version, skipped in steps:
            await loop._stop_when_nothing_is_learned({SKIPPED: mean_of(skipped)}, version, [f"batch {version}"])

    asyncio.run(skip((0, 1), (1, 1), (2, 0), (3, 1), (4, 1)))
    assert replays == []
    with pytest.raises(RunFailed, match=r"in 3 steps in a row .*max_skipped_steps=3.*`proxrl replay .*/replay/step`"):
        asyncio.run(skip((5, 1)))
    assert replays == [(5, ["batch 5"])]
    assert loop.run.state(loop.rollouts, loop.skipped.in_a_row).num_skipped_steps_in_a_row == 3


def mean_of(value):
    return Metric.over(torch.tensor([float(value)]), torch.ones(1))


def test_a_failed_update_ends_the_wait_for_a_batch(inputs, tmp_path):
    """Without lag nothing is started before every worker holds the version."""
    loop, _ = go(inputs, tmp_path / "run", {("wait", 1): NONE_LEFT})
    loop.parts.sync.start_update = lambda on_done, on_failed: on_failed(TrainerLost("a trainer rank died"))

    async def body():
        loop._feeder = asyncio.ensure_future(asyncio.sleep(60))
        await loop._publish(0)
        await asyncio.wait_for(TrainingLoop._next_groups(loop, 0), 5)

    with pytest.raises(TrainerLost, match="a trainer rank died"):
        asyncio.run(body())
