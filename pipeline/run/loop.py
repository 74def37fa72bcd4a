"""The asynchronous run: sampling and training at the same time, tied by versions.

```
 prompts ──▶ Admission ──▶ Fleet (rollout workers) ──groups──▶ GroupBuffer ──B groups──▶ TrainerGroup
 (cursor)   (staleness η)      ▲                              (age re-checked)               │
                               └──────────── WeightSync: publish v+1, update, verify ◀───────┘
```
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from omegaconf import OmegaConf
from ray.exceptions import RayError, RayTaskError

from actor.metrics import Metrics, merge, to_floats
from configs.schema import Config
from exchange.types import Group
from pipeline.batch.batching import prepare_batch
from pipeline.errors import RunFailed, TrainerLost, disk_failure
from pipeline.feed.feeder import Rollouts
from pipeline.machine.processes import end_on_signals
from pipeline.machine.remote import as_local, told
from pipeline.metrics.alarms import alarms, disagreement
from pipeline.records.checkpoints import Checkpoint
from pipeline.records.summary import Summary, read_summary
from pipeline.records.trajectories import write_trajectories
from pipeline.run.assembly import Parts, probe_token_ids, started
from pipeline.run.consistency_sample import parity_metrics
from pipeline.run.console import RunConsole
from pipeline.run.held_out import Evaluation, evaluate
from pipeline.run.replay import save_replay
from pipeline.run.run import Run, open_run
from pipeline.run.step_metrics import (
    SKIPPED,
    SkippedSteps,
    StepRecord,
    StepTimer,
    buffer_metrics,
    rollout_metrics,
    throughput_metrics,
)
from pipeline.workers.weight_sync import sync_metrics


def train(config: Config) -> Summary:
    """Run, or resume, the training that `config` describes.

    Raises:
        ValueError: something the user can fix, in one sentence, before any process starts where possible.
        KeyboardInterrupt: the run was interrupted; every process has ended.
        RunFailed: the run cannot continue; its message says why and how to resume.
    """
    with open_run(config) as run, RunConsole(config.run.name, config.train.total_steps) as console:
        if run.is_finished:
            console.note(
                f"{run.folder.root} holds a finished run of {run.version} steps (train.total_steps="
                f"{config.train.total_steps}); raise it to continue, or choose another run.dir for a new run"
            )
            return read_summary(run.folder.summary)
        try:
            return asyncio.run(_train(run, console))
        except asyncio.CancelledError:
            raise KeyboardInterrupt(f"interrupted; {run.how_to_go_on()}") from None
        except RunFailed as failure:
            raise type(failure)(f"{failure}; {run.how_to_go_on()}") from failure
        except RayTaskError as error:
            raise _explained(as_local(error), run) from error
        except OSError as error:
            raise _explained(error, run) from error


def _explained(error: Exception, run: Run) -> Exception:
    failure = error if isinstance(error, RunFailed) else disk_failure(error)
    return error if failure is None else RunFailed(f"{failure}; {run.how_to_go_on()}")


async def _train(run: Run, console: RunConsole) -> Summary:
    end_on_signals(console.note)
    probe = probe_token_ids(run.config, run.train_prompts)
    async with started(run.config, run.folder, probe, console) as parts:
        run.record_versions(parts.rollout_info, parts.trainer_info)
        return await run_to_the_end(TrainingLoop(run, parts, console))


async def run_to_the_end(loop: "TrainingLoop") -> Summary:
    """All steps that are left; where the run fails and the trainer has not, what it has learned is kept."""
    try:
        await loop.prepare()
        await loop.steps()
        return await loop.finish()
    except RunFailed as failure:
        if not isinstance(failure, TrainerLost):
            await loop.save_what_was_trained()
        raise
    finally:
        await loop.close()


@dataclass
class TrainingLoop:
    """The loop itself; `version` is the number of finished steps."""

    run: Run
    parts: Parts
    console: RunConsole
    rollouts: Rollouts = field(init=False)
    skipped: SkippedSteps = field(init=False)
    _setting: Callable[[str], Any] = field(init=False)
    _feeder: asyncio.Task[None] = field(init=False)
    _between_steps: bool = field(default=False, init=False)
    """Trainer, records and rollouts are at the end of the same step."""
    _num_reward_failures: int = field(init=False)
    """Of those that a step has recorded."""

    def __post_init__(self) -> None:
        self.rollouts = self.run.make_rollouts(self.parts.fleet)
        self._num_reward_failures = self.rollouts.counts["rewards_failed"]
        actor = self.config.actor
        self._setting = partial(OmegaConf.select, OmegaConf.structured(self.config))
        before = self.run.restored.num_skipped_steps_in_a_row if self.run.restored is not None else 0
        self.skipped = SkippedSteps(actor.optimizer.max_skipped_steps, actor.ppo_n_minibatches, before)

    @property
    def config(self) -> Config:
        return self.run.config

    async def prepare(self) -> None:
        """Bring every worker to the run's version, proved against the trainer, before the first sample."""
        for sentence in self.run.data_notes:
            self.console.note(sentence)
        if self.run.checkpoint is not None:
            self.console.phase(f"resuming from {self.run.checkpoint.path}")
            await self.parts.trainer.load_state(str(self.run.checkpoint.trainer))
        await self._publish(self.run.version)
        await self.parts.sync.settle_update()
        self._between_steps = True
        if self.run.version == 0 and self.run.eval_before is None and self.run.eval_prompts:
            self.console.phase("evaluating the initial policy")
            evaluation = await self._evaluate(self.run.version)
            self.run.set_eval_before(evaluation)
            self.console.note(f"held-out reward before training: {evaluation.metrics()['eval/reward']:.3f}")
            self.run.metrics.write({"step": 0, "version": 0, "time_s": self.run.time_s} | evaluation.metrics())

    async def steps(self) -> None:
        """Every step: take a batch, train, publish, record."""
        self._feeder = asyncio.ensure_future(self.rollouts.run())
        self.console.workers(lambda: [slot.state() for slot in self.parts.fleet.slots])
        self.console.begin_steps(self.run.version)
        while self.run.version < self.config.train.total_steps:
            record = await self._step()
            try:
                if record.step == self.config.train.total_steps or _due(self.config.eval.every, record.step):
                    await self._evaluate_into(record)
            finally:  # the step was made, whatever became of its evaluation
                self._record(record)
            if record.step == self.config.train.total_steps or _due(self.config.checkpoint.every, record.step):
                await self._save(record.step)

    def _record(self, record: StepRecord) -> None:
        self.run.metrics.write(record.row())
        self.run.trackers.log(record.row())
        self.console.step(record.row())
        self._watch(record.row())
        self._between_steps = True

    async def _step(self) -> StepRecord:
        timer, version, generated = StepTimer(), self.run.version, self.rollouts.num_generated_tokens
        sampling = asyncio.ensure_future(self._parity(version))  # beside the wait for a batch
        try:
            groups = await self._next_groups(version)
            self._between_steps = False
            wait_s = timer.lap("wait_batch")
            batch = await prepare_batch(self.config, groups, self.parts.trainer)
            timer.lap("build_batch")
            parity = await sampling
            timer.lap("parity")
        finally:
            sampling.cancel()
        trained = await self.parts.trainer.step(version, batch.shares, batch.denominators)
        train_s = timer.lap("train")
        await self._stop_when_nothing_is_learned(trained.metrics, version, groups)
        reports = await self.parts.sync.finish_update()
        timer.lap("wait_update")
        self.run.version, self.run.eval_after = version + 1, None
        publish_s = await self._publish(self.run.version)
        timer.lap("publish")
        write_trajectories(self.run.folder.trajectories, self.run.version, groups, trained.proximal_logprobs)
        timer.lap("write_trajectories")
        self.run.train_time_s += timer.total_s
        record = StepRecord(step=self.run.version, version=self.run.version, time_s=self.run.time_s)
        record.add_metrics(merge([trained.metrics, parity]))
        record.add(rollout_metrics(groups), batch.advantage_metrics, trained.timings, timer.metrics())
        generated = self.rollouts.num_generated_tokens - generated
        record.add({"rl/reward_failures": float(self._new_reward_failures())})
        record.add(throughput_metrics(generated, batch.num_tokens, timer.total_s, train_s, wait_s))
        record.add(sync_metrics(reports, publish_s))
        admission = self.rollouts.admission
        restarts = self.parts.fleet.num_restarts
        record.add(buffer_metrics(len(self.rollouts.buffer), admission.running, self.rollouts.counts, restarts))
        return record

    def _new_reward_failures(self) -> int:
        before, self._num_reward_failures = self._num_reward_failures, self.rollouts.counts["rewards_failed"]
        return self._num_reward_failures - before

    async def _parity(self, version: int) -> Metrics:
        """Every few steps, fresh completions at the trainer's own version: agreement measured whatever the lag."""
        if not self.config.consistency.every or version % self.config.consistency.every:
            return {}
        await self.parts.sync.settle_update()
        return await parity_metrics(self.config, self.parts.fleet, self.parts.trainer, self.run.train_prompts, version)

    def _watch(self, row: Mapping[str, Any]) -> None:
        """Show alarms when they appear, and end the run where the config asks for it."""
        self.console.alarms(row["step"], alarms(row, self._setting))
        if self.config.consistency.action == "stop" and (reason := disagreement(row, self._setting)) is not None:
            raise RunFailed(reason)

    async def _stop_when_nothing_is_learned(self, metrics: Metrics, version: int, groups: list[Group]) -> None:
        """Skipped steps have left the trainer as it was, so the batch can be replayed from its state now."""
        skipped = to_floats({SKIPPED: metrics[SKIPPED]})[f"{SKIPPED}/avg"]
        if not self.skipped.reached(skipped):
            return
        folder = await save_replay(self.run.folder.root / "replay", self.config, version, groups, self.parts.trainer)
        raise RunFailed(
            f"no gradient was usable in {self.skipped.in_a_row} steps in a row "
            f"(actor.optimizer.max_skipped_steps={self.skipped.limit}); "
            f"`proxrl replay {folder}` shows the numbers of the last one"
        )

    async def _next_groups(self, version: int) -> list[Group]:
        """The next batch; an error of the feeding task ends the run instead of a wait without end."""
        take = asyncio.ensure_future(self.rollouts.take(self.config.train.batch_size, version))
        done, _ = await asyncio.wait({take, self._feeder}, return_when=asyncio.FIRST_COMPLETED)
        if take not in done:
            take.cancel()
            self._feeder.result()
        return await take

    async def _publish(self, version: int) -> float:
        publish_s = await self.parts.sync.publish(version)
        self.parts.sync.start_update(lambda: self.rollouts.set_version(version), self.rollouts.fail)
        return publish_s

    async def _evaluate(self, step: int) -> Evaluation:
        await self.parts.sync.settle_update()
        return await evaluate(self.config, self.parts.fleet, self.run.eval_prompts, str(step))

    async def _evaluate_into(self, record: StepRecord) -> None:
        if not self.run.eval_prompts:
            return
        started_s = time.monotonic()
        evaluation = await self._evaluate(record.step)
        record.add(evaluation.metrics(), {"timing/eval_s": time.monotonic() - started_s})
        self.run.set_eval_after(evaluation)

    async def _save(self, step: int) -> None:
        partial = self.run.store.begin(step)
        await self.parts.trainer.save_policy(str(partial / "policy"))
        await self.parts.trainer.save_state(str(partial / "trainer"))
        state = self.run.state(self.rollouts, self.skipped.in_a_row)
        checkpoint: Checkpoint = await asyncio.to_thread(self.run.store.finish, partial, step, state.to_json())
        self.console.note(f"checkpoint {checkpoint.path}")

    async def save_what_was_trained(self) -> None:
        """A checkpoint of the last step, where the run fails between two; that it fails as well is only told."""
        step = self.run.version
        if not self._between_steps or step == 0 or any(c.step == step for c in self.run.store.all()):
            return
        try:
            await self._save(step)
        except (RunFailed, RayError, OSError) as error:
            self.console.note(f"the state after step {step} could not be saved: {told(error)}")

    async def finish(self) -> Summary:
        """Wait for the last update's proof and write the summary."""
        await self.parts.sync.finish_update()
        if self.run.eval_after is None and self.run.eval_prompts:  # an earlier process failed at it
            self.run.set_eval_after(await self._evaluate(self.run.version))
        summary = self.run.write_summary()
        self.console.note(summary.in_words())
        return summary

    async def close(self) -> None:
        if hasattr(self, "_feeder"):
            self._feeder.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._feeder
        await self.rollouts.close()


def _due(every: int, step: int) -> bool:
    return every > 0 and step % every == 0
