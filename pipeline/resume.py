"""Opens a run's folder: a new run, or one that goes on from its newest whole checkpoint."""

import fcntl
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from configs.loader import save_config
from configs.schema import Config
from pipeline.admission import Admission
from pipeline.checkpoints import Checkpoint, CheckpointStore
from pipeline.disk_room import check_room
from pipeline.evaluation import Evaluation, held_out_prompts
from pipeline.fleet import Fleet
from pipeline.hardware import check_hardware
from pipeline.head_size import check_head_size
from pipeline.json_lines import JsonLines
from pipeline.ledger import Ledger
from pipeline.model_weights import check_weights_fit
from pipeline.rollouts import Rollouts
from pipeline.run_folder import RunFolder
from pipeline.run_state import RunState
from pipeline.trackers import Trackers
from pipeline.trajectory_log import remove_trajectories_after
from rollout.dataset import load_prompts
from rollout.model_files import architecture, context_length, read_model_json
from rollout.prompt_cursor import PromptCursor
from rollout.tokenizer import load_tokenizer
from rollout.types import Prompt

LOCK = "lock"


@dataclass
class Resumable:
    """A run's folder, data and everything that a checkpoint carries over."""

    config: Config
    folder: RunFolder
    store: CheckpointStore
    metrics: JsonLines
    ledger: Ledger
    trackers: Trackers
    train_prompts: list[Prompt]
    eval_prompts: list[Prompt]
    num_prompts_left_out: int = 0
    checkpoint: Checkpoint | None = None
    restored: RunState | None = None
    version: int = 0
    train_time_s: float = 0.0
    eval_before: dict[str, float] | None = None
    eval_after: dict[str, float] | None = None
    counts: Counter[str] = field(default_factory=Counter)
    versions: dict[str, Any] = field(default_factory=dict)
    _opened: float = field(default_factory=time.monotonic)

    @property
    def time_s(self) -> float:
        """Seconds of training, this process's start-up included."""
        return time.monotonic() - self._opened

    @property
    def is_finished(self) -> bool:
        """Whether an earlier process has trained all steps and written the summary."""
        return self.version >= self.config.train.total_steps and self.folder.summary.exists()

    def make_rollouts(self, fleet: Fleet) -> Rollouts:
        """The rollout side, as the checkpoint left it."""
        config = self.config
        admission = Admission(
            batch_size=config.train.batch_size,
            max_head_offpolicyness=config.rollout.max_head_offpolicyness,
            max_concurrent=config.rollout.max_concurrent_rollouts,
            total_steps=config.train.total_steps,
            version=self.version,
            accepted=self.version * config.train.batch_size,
        )
        cursor = PromptCursor(self.train_prompts, config.run.seed)
        rollouts = Rollouts(config, fleet, cursor, self.ledger, admission)
        if self.restored is not None:
            rollouts.restore(self.restored, {p.prompt_id: p for p in self.train_prompts})
        self.counts = rollouts.counts
        return rollouts

    def state(self, rollouts: Rollouts) -> RunState:
        """Everything beside the trainer's own state that a resumed run needs."""
        return RunState(
            version=self.version,
            cursor=rollouts.cursor_state(),
            next_group=rollouts.next_group,
            buffered=rollouts.buffer.groups,
            in_flight=rollouts.in_flight(),
            counts=dict(rollouts.counts),
            train_time_s=self.train_time_s,
            eval_before=self.eval_before,
            eval_after=self.eval_after,
            ledger_bytes=self.ledger.num_bytes,
            metrics_bytes=self.metrics.num_bytes,
            fingerprint=fingerprint(self.config),
        )

    def set_eval_before(self, evaluation: Evaluation) -> None:
        self.eval_before = evaluation.metrics()

    def set_eval_after(self, evaluation: Evaluation) -> None:
        self.eval_after = evaluation.metrics()

    def record_versions(self, rollout_info: list[dict[str, Any]], trainer_info: list[dict[str, Any]]) -> None:
        """What each half runs on, for summary.json."""
        self.versions = {"rollout": rollout_info, "trainer": trainer_info}

    def how_to_go_on(self) -> str:
        """The sentence shown after an interruption."""
        checkpoints = self.store.all()
        if checkpoints:
            return (
                f"run the same command again to go on from {checkpoints[-1].path} "
                f"(step {checkpoints[-1].step} of {self.config.train.total_steps})"
            )
        return (
            f"no checkpoint was written yet (checkpoint.every={self.config.checkpoint.every}), "
            f"so the same command starts anew in {self.folder.root}"
        )


def fingerprint(config: Config) -> dict[str, Any]:
    """The settings that a resumed run may not change."""
    return {
        "model.path": config.model.path,
        "model.dtype": config.model.dtype,
        "model.architecture": architecture(config.model.path),
        "dataset.path": config.dataset.path,
        "dataset.split": config.dataset.split,
        "run.seed": config.run.seed,
        "train.batch_size": config.train.batch_size,
        "rollout.sampling.n_samples": config.rollout.sampling.n_samples,
        "actor.num_workers": config.actor.num_workers,
        "actor.deepspeed.zero_stage": config.actor.deepspeed.zero_stage,
        "actor.lora.rank": config.actor.lora.rank,
    }


@contextmanager
def open_run(config: Config) -> Iterator[Resumable]:
    """Check the machine, read the data, lock the folder, find the checkpoint.

    Raises:
        ValueError: the folder is in use or of another run, a data set or tokenizer is unusable,
            or the machine lacks what the config needs.
    """
    check_hardware(config)
    folder = RunFolder.of(config)
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    check_weights_fit(config.model.path, config.model.trust_remote_code)
    check_head_size(config, read_model_json(config.model.path, "config.json"))  # also of a model from the hub
    train_prompts = load_prompts(
        config.dataset,
        tokenizer,
        max_new_tokens=config.rollout.sampling.max_new_tokens,
        max_model_len=context_length(config.model.path),
    )
    eval_prompts = held_out_prompts(config, tokenizer).prompts if config.eval.num_samples else []
    with ExitStack() as stack:
        folder.create()
        check_room(folder.root, config)
        stack.enter_context(_locked(folder.root))
        store = CheckpointStore(folder.checkpoints, config.checkpoint.keep)
        checkpoint, restored = _find_checkpoint(store, folder, config)
        _remove_after(folder, restored)
        save_config(config, folder.config)
        run = Resumable(
            config=config,
            folder=folder,
            store=store,
            metrics=stack.enter_context(JsonLines(folder.metrics)),
            ledger=Ledger(stack.enter_context(JsonLines(folder.ledger))),
            trackers=stack.enter_context(Trackers(config, folder, restored.version if restored else 0)),
            train_prompts=train_prompts.prompts,
            num_prompts_left_out=sum(train_prompts.num_dropped.values()),
            eval_prompts=eval_prompts,
            checkpoint=checkpoint,
            restored=restored,
        )
        if restored is None:
            run.ledger.record_dataset(len(run.train_prompts))
        else:
            run.version, run.train_time_s = restored.version, restored.train_time_s
            run.eval_before, run.eval_after = restored.eval_before, restored.eval_after
        yield run


def _find_checkpoint(
    store: CheckpointStore, folder: RunFolder, config: Config
) -> tuple[Checkpoint | None, RunState | None]:
    """The newest whole checkpoint of this very run; damaged ones are named and passed over."""
    checkpoint, passed_over = store.newest_whole()
    for sentence in passed_over:
        print(sentence)
    if checkpoint is None:
        return None, None
    restored = RunState.from_json(checkpoint.run_state())
    _check_same(folder, restored, config)
    return checkpoint, restored


def _remove_after(folder: RunFolder, restored: RunState | None) -> None:
    """Drop what was recorded after the checkpoint, so that no step is recorded twice."""
    _cut(folder.metrics, restored.metrics_bytes if restored else 0)
    _cut(folder.ledger, restored.ledger_bytes if restored else 0)
    remove_trajectories_after(folder.trajectories, restored.version if restored else 0)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with (root / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise ValueError(
                f"run.dir={root} is in use by process {file.read().strip() or '?'}; "
                "wait for it or choose another folder"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _check_same(folder: RunFolder, restored: RunState, config: Config) -> None:
    now = fingerprint(config)
    for key, value in restored.fingerprint.items():
        if key in now and now[key] != value:
            raise ValueError(
                f"{key}={now.get(key)!r} differs from {value!r} of the run in {folder.root}; "
                "give it the old value, or choose another run.dir to start a new run"
            )


def _cut(path: Path, num_bytes: int) -> None:
    """Drop what was written after the checkpoint, so that nothing is recorded twice."""
    if path.exists():
        os.truncate(path, num_bytes)
