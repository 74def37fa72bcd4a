"""A run's ledger audited against what its other files say.

Proves from a run's ledger that no prompt was lost and none was trained on twice in an epoch.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.records.checkpoints import Checkpoint, CheckpointStore
from pipeline.records.json_lines import last_step, parse_json_lines, read_json_lines
from pipeline.records.run_folder import RunFolder, living_process
from pipeline.records.run_state import RunState
from pipeline.records.settings import read_settings, setting

Key = tuple[int, str]  # epoch, prompt id


@dataclass
class Audit:
    """What the ledger shows; `problems` is empty when every prompt is accounted for."""

    num_prompts: int = 0  # of the data set
    num_issued: int = 0
    num_consumed: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # groups by reason
    requeued: Counter[str] = field(default_factory=Counter)  # groups by reason
    num_open: int = 0  # asked and not ended: in flight or in the buffer
    num_waiting: int = 0  # put back and not asked again yet
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Held:
    """What a checkpoint resumes with: every group that is open after its rows of the ledger, and what was put back."""

    name: str
    num_rows: int
    groups: frozenset[str]  # in flight or in the buffer
    waiting: frozenset[Key]


class Auditor:
    """Reads events in order; see `audit`."""

    def __init__(self) -> None:
        self.result = Audit()
        self._open: dict[str, Key] = {}
        self._asked: dict[Key, str] = {}  # prompts that are open now, and by which group
        self._waiting: dict[Key, str] = {}
        self._consumed: dict[Key, str] = {}
        self._seen: dict[int, set[str]] = defaultdict(set)  # prompts issued at least once, by epoch
        self._has_dataset = False

    def read(self, row: Mapping[str, Any]) -> None:
        """Take one event."""
        event = row["event"]
        if event == "dataset":
            self.result.num_prompts, self._has_dataset = int(row["num_prompts"]), True
            return
        group, key = row["group_id"], (int(row["epoch"]), row["prompt_id"])
        if event == "issued":
            self._issued(group, key)
        elif event != "finished":
            self._ended(event, group, key, row.get("reason") or "no reason")

    def _issued(self, group: str, key: Key) -> None:
        self.result.num_issued += 1
        if key in self._asked:
            self._problem(f"{_name(key)} was requested by {group} while {self._asked[key]} was still open")
        if self._waiting and key not in self._waiting:
            passed = next(iter(self._waiting))
            self._problem(f"{_name(passed)} was put back by {self._waiting[passed]} and skipped")
            self._waiting.clear()
        self._waiting.pop(key, None)
        self._asked[key], self._open[group] = group, key
        self._seen[key[0]].add(key[1])

    def _ended(self, event: str, group: str, key: Key, reason: str) -> None:
        if self._open.pop(group, None) is None:
            self._problem(f"group {group} was {event} without being open")
        self._asked.pop(key, None)
        if event == "requeued":
            self.result.requeued[reason] += 1
            self._waiting[key] = group
        elif event == "dropped":
            self.result.dropped[reason] += 1
        elif event == "consumed":
            self.result.num_consumed += 1
            if key in self._consumed:
                self._problem(f"{_name(key)} was trained on twice: groups {self._consumed[key]} and {group}")
            self._consumed[key] = group

    def compare(self, checkpoint: Held) -> None:
        """Check a checkpoint that was written now: what is open, and only that, is in flight or in the buffer."""
        lost, unknown = self._open.keys() - checkpoint.groups, checkpoint.groups - self._open.keys()
        if lost:
            self._problem(f"{_some(lost)} had not ended and {checkpoint.name} does not hold them")
        if unknown:
            self._problem(f"{checkpoint.name} holds {_some(unknown)}, which had ended or was never asked")
        if waiting := self._waiting.keys() ^ checkpoint.waiting:
            names = _some(map(_name, waiting))
            self._problem(f"{names}: put back by the ledger or by {checkpoint.name}, not by both")

    def finish(self, finished: bool) -> Audit:
        """Check that a finished run holds nothing, and that every prompt was requested in each epoch that is over."""
        if finished and self._open:
            self._problem(f"the run is finished, and {_some(self._open)} never ended")
        if not self._has_dataset:
            self._problem("the ledger does not begin with the size of the data set: its first lines are lost")
        self.result.num_open, self.result.num_waiting = len(self._open), len(self._waiting)
        newest = max(self._seen, default=0)
        for epoch, seen in sorted(self._seen.items()):
            missing = self.result.num_prompts - len(seen)
            if epoch < newest and missing:
                self._problem(f"{missing} of {self.result.num_prompts} prompts were never asked in epoch {epoch}")
        return self.result

    def _problem(self, sentence: str) -> None:
        self.result.problems.append(sentence)


def audit(rows: Iterable[Mapping[str, Any]], checkpoints: Sequence[Held] = (), finished: bool = False) -> Audit:
    """Audit the objects of ledger.jsonl in the order in which they were written.

    Args:
        checkpoints: a prompt that one of them does not hold and the ledger has not ended is lost to whoever
            resumes from it.
        finished: all steps are done, so that nothing may be open.
    """
    auditor, held = Auditor(), {c.num_rows: c for c in checkpoints}
    for number, row in enumerate(rows, 1):
        try:
            auditor.read(row)
        except (KeyError, TypeError, ValueError):
            auditor.result.problems.append(f"line {number} of the ledger is not an event that a run writes")
        if number in held:
            auditor.compare(held[number])
    return auditor.finish(finished)


def _some(names: Iterable[str], most: int = 5) -> str:
    names = sorted(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _name(key: Key) -> str:
    return f"prompt {key[1]} of epoch {key[0]}"


def audit_run(path: Path) -> Audit:
    """The audit of a run's folder; a file that cannot be read is a problem, for nothing is proved without it.

    Raises:
        ValueError: there is no ledger.
    """
    folder = RunFolder(path)
    if not folder.ledger.is_file():
        raise ValueError(f"{path} holds no ledger.jsonl; name the folder of a run")
    # In this order, for the run may go on: what is recorded after the metrics can only be more.
    finished, lives = folder.summary.exists(), living_process(folder.root) is not None
    try:
        num_steps = last_step(read_json_lines(folder.metrics) if folder.metrics.is_file() else [])
        checkpoints = CheckpointStore(folder.checkpoints).all()
        ledger = folder.ledger.read_bytes()
        held, changed = _held([c for c in checkpoints if c.step <= num_steps], ledger)
        result = audit(parse_json_lines(ledger, str(folder.ledger)), held, finished)
    except ValueError as error:
        return Audit(problems=[str(error)])
    result.problems += changed
    batch_size = setting(read_settings(folder), "train.batch_size")
    if not isinstance(batch_size, int):
        result.problems.append(f"{folder.config} names no train.batch_size to compare the recorded steps by")
    elif not _agree(result.num_consumed, num_steps, batch_size, finished, lives):
        result.problems.append(
            f"{num_steps} steps of {batch_size} groups are recorded in metrics.jsonl, but {result.num_consumed} "
            "groups were trained on by the ledger"
        )
    return result


def _held(checkpoints: Sequence[Checkpoint], ledger: bytes) -> tuple[list[Held], list[str]]:
    """What the checkpoints resume with, and a sentence for each whole one whose rows the ledger no longer holds."""
    held, changed = [], []
    for checkpoint in checkpoints:
        try:
            state = RunState.from_json(checkpoint.run_state())
        except (OSError, KeyError, TypeError, ValueError):  # a run passes it over
            continue
        if state.began_with(ledger):
            held.append(_held_by(checkpoint.path.name, state, ledger.count(b"\n", 0, state.ledger_bytes)))
        elif state.ledger_sha256 and checkpoint.damage() is None:
            changed.append(f"the ledger no longer holds what it held at {checkpoint.path.name}")
    return held, changed


def _held_by(name: str, state: RunState, num_rows: int) -> Held:
    groups = {g.group_id for g in state.buffered} | {group_id for group_id, _, _ in state.in_flight}
    waiting = {(int(epoch), str(prompt_id)) for epoch, prompt_id in state.cursor.get("returned", ())}
    return Held(name, num_rows, frozenset(groups), frozenset(waiting))


def _agree(num_consumed: int, num_steps: int, batch_size: int, finished: bool, lives: bool) -> bool:
    """Every recorded step has trained on a batch; the step in which a run was stopped has, and is not recorded."""
    least, most = num_steps * batch_size, (num_steps + (not finished)) * batch_size
    return num_consumed >= least and (lives or num_consumed <= most)
