"""A run's ledger audited against what its other files say."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.audit import Audit, Held, audit
from pipeline.checkpoints import Checkpoint, CheckpointStore
from pipeline.json_lines import last_step, parse_json_lines, read_json_lines
from pipeline.run_folder import RunFolder
from pipeline.run_lock import living_process
from pipeline.run_settings import read_settings, setting
from pipeline.run_state import RunState


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
    """What the checkpoints go on with, and a sentence for each whole one whose rows the ledger no longer holds."""
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
