"""Opens a run's folder: a new run, or one that resumes from its newest whole checkpoint."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.loading.loader import save_config
from configs.schema import Config
from exchange.types import Prompt
from pipeline.errors import disk_failure
from pipeline.feed.feeder import Rollouts
from pipeline.feed.staleness import Admission
from pipeline.metrics.trackers import Trackers
from pipeline.records.checkpoints import Checkpoint, CheckpointStore, to_disk
from pipeline.records.json_lines import JsonLines
from pipeline.records.ledger import Ledger
from pipeline.records.restored import cut_records, drop_stale_summary, records_damage, require_nothing_to_lose
from pipeline.records.run_folder import RunFolder, locked, write_dataclass
from pipeline.records.run_state import RunState, ledger_checksum
from pipeline.records.same_run import check_same_prompts, check_same_run, fingerprint
from pipeline.records.summary import Summary
from pipeline.run.held_out import Evaluation, held_out_prompts
from pipeline.workers.fleet import Fleet
from rollout.data.dataset import PromptSet, load_prompts
from rollout.data.model_files import context_length
from rollout.data.prompt_cursor import PromptCursor
from rollout.data.prompts import reads_clock
from rollout.data.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass
class Run:
    """A run's folder, data and everything that a checkpoint carries over."""

    config: Config
    folder: RunFolder
    store: CheckpointStore
    metrics: JsonLines
    ledger: Ledger
    trackers: Trackers
    train_prompts: list[Prompt]
    eval_prompts: list[Prompt]
    data_notes: list[str] = field(default_factory=list)
    """What a user should know of the data sets, a sentence each."""
    began: datetime = field(default_factory=datetime.now)
    checkpoint: Checkpoint | None = None
    restored: RunState | None = None
    version: int = 0
    train_time_s: float = 0.0
    eval_before: dict[str, float] | None = None
    eval_after: dict[str, float] | None = None
    counts: Counter[str] = field(default_factory=Counter)
    versions: dict[str, Any] = field(default_factory=dict)
    _opened: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.restored is not None:
            self.version, self.train_time_s = self.restored.version, self.restored.train_time_s
            self.eval_before, self.eval_after = self.restored.eval_before, self.restored.eval_after

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

    def state(self, rollouts: Rollouts, num_skipped_steps_in_a_row: int = 0) -> RunState:
        """Everything beside the trainer's own state that a resumed run needs; its records are on the disk then."""
        to_disk(self.folder.metrics)
        to_disk(self.folder.ledger)
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
            recent_reward_failures=list(rollouts.reward_failures.recent),
            num_skipped_steps_in_a_row=num_skipped_steps_in_a_row,
            ledger_sha256=ledger_checksum(self.folder.ledger.read_bytes()),
            began=self.began.isoformat(),
        )

    def set_eval_before(self, evaluation: Evaluation) -> None:
        self.eval_before = evaluation.metrics()

    def set_eval_after(self, evaluation: Evaluation) -> None:
        self.eval_after = evaluation.metrics()

    def record_versions(self, rollout_info: list[dict[str, Any]], trainer_info: list[dict[str, Any]]) -> None:
        """What each half runs on, for summary.json."""
        self.versions = {"rollout": rollout_info, "trainer": trainer_info}

    def write_summary(self) -> Summary:
        """Of the run as it stands."""
        checkpoints = self.store.all()
        summary = Summary(
            name=self.config.run.name,
            num_steps=self.version,
            train_time_s=self.train_time_s,
            eval_before=self.eval_before,
            eval_after=self.eval_after,
            counts=dict(self.counts),
            versions=self.versions,
            allowed_disagreements=list(self.config.rollout.allow_disagreement),
            run_dir=str(self.folder.root),
            metrics=str(self.folder.metrics),
            checkpoint=str(Path(checkpoints[-1].policy)) if checkpoints else None,
        )
        write_dataclass(self.folder.summary, summary)
        return summary

    def how_to_go_on(self) -> str:
        """The sentence shown after an interruption."""
        checkpoints = self.store.all()
        if checkpoints:
            return (
                f"run the same command again to resume from {checkpoints[-1].path} "
                f"(step {checkpoints[-1].step} of {self.config.train.total_steps})"
            )
        return (
            f"no checkpoint was written yet (checkpoint.every={self.config.checkpoint.every}), "
            f"so the same command starts from the beginning in {self.folder.root}"
        )


@contextmanager
def open_run(config: Config) -> Iterator[Run]:
    """Read the data, lock the folder, find the checkpoint.

    Raises:
        ValueError: the folder is in use or of another run, or a data set or tokenizer is unusable.
    """
    folder = RunFolder.of(config)
    began = datetime.now()
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    train_prompts, eval_prompts = _prompts(config, tokenizer, began)
    with ExitStack() as stack:
        with _files_of(folder):
            folder.create()
            stack.enter_context(locked(folder.root))
            store = CheckpointStore(folder.checkpoints, config.checkpoint.keep)
            store.remove_partial()
            checkpoint, restored = _find_checkpoint(store, folder, config)
            if restored is not None:
                began = datetime.fromisoformat(restored.began) if restored.began else began
                if reads_clock(tokenizer):
                    train_prompts, eval_prompts = _prompts(config, tokenizer, began)
                check_same_prompts(folder, restored, config, train_prompts.prompts)
        trackers = stack.enter_context(Trackers(config, folder, restored.version if restored else 0))
        # All is checked: only now the folder is changed.
        with _files_of(folder):
            if restored is not None:
                goes_on = restored.version < config.train.total_steps
                drop_stale_summary(folder.summary, restored.version, goes_on)
            cut_records(folder, restored)
            save_config(config, folder.config)
            run = Run(
                config=config,
                folder=folder,
                store=store,
                metrics=stack.enter_context(JsonLines(folder.metrics)),
                ledger=Ledger(stack.enter_context(JsonLines(folder.ledger))),
                trackers=trackers,
                train_prompts=train_prompts.prompts,
                eval_prompts=eval_prompts.prompts,
                data_notes=data_notes(train_prompts, eval_prompts),
                began=began,
                checkpoint=checkpoint,
                restored=restored,
            )
            if restored is None:
                run.ledger.record_dataset(len(run.train_prompts))
        yield run


def _prompts(config: Config, tokenizer: "PreTrainedTokenizerBase", began: datetime) -> tuple[PromptSet, PromptSet]:
    """Those to train on and those held out, as a chat template renders them at the time the run began."""
    train_prompts = load_prompts(
        config.dataset,
        tokenizer,
        max_new_tokens=config.rollout.sampling.max_new_tokens,
        max_model_len=context_length(config.model.path),
        now=began,
    )
    return train_prompts, held_out_prompts(config, tokenizer, began) if config.eval.num_samples else PromptSet([], {})


def data_notes(train: PromptSet, held_out: PromptSet) -> list[str]:
    """What a user should know of the data sets before training, a sentence each."""
    notes = []
    for name, prompts in (("", train), ("held-out ", held_out)):
        if left_out := sum(prompts.num_dropped.values()):
            total = len(prompts.prompts) + left_out
            notes.append(f"{left_out} of {total} {name}prompts are too long and left out")
    trained_on = {p.token_ids for p in train.prompts}
    if shared := sum(p.token_ids in trained_on for p in held_out.prompts):
        notes.append(
            f"WARNING: {shared} of {len(held_out.prompts)} held-out prompts are also training prompts, so eval/reward "
            "measures what was trained on; name a held-out set in eval.path and eval.split"
        )
    return notes


@contextmanager
def _files_of(folder: RunFolder) -> Iterator[None]:
    """A file of the run that cannot be read or written is one sentence."""
    try:
        yield
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        why = disk_failure(error) or (
            f"{error.strerror or error}{where}; move or delete what is in its place, or choose another folder"
        )
        raise ValueError(f"run.dir={folder.root} cannot be used: {why}") from error


def _find_checkpoint(
    store: CheckpointStore, folder: RunFolder, config: Config
) -> tuple[Checkpoint | None, RunState | None]:
    """The newest whole checkpoint of this very run; damaged ones are named and skipped."""

    states: dict[int, RunState] = {}  # by step

    def damage_beside(checkpoint: Checkpoint) -> str | None:
        try:
            state = RunState.from_json(checkpoint.run_state())
        except OSError:
            return "its run.json cannot be read"
        except (KeyError, TypeError, ValueError):
            return "its run.json is not one of this version of proxrl"
        states[checkpoint.step] = state
        return records_damage(folder, state)

    checkpoint, passed_over = store.newest_whole(damage_beside)
    if checkpoint is None:
        require_nothing_to_lose(folder, passed_over)
        return None, None
    for sentence in passed_over:
        print(sentence)
    restored = states[checkpoint.step]
    check_same_run(folder, restored, config)
    return checkpoint, restored
