"""A run's ledger audited against what its other files say."""

from pathlib import Path

from pipeline.audit import Audit, audit
from pipeline.json_lines import last_step, read_json_lines
from pipeline.run_folder import RunFolder
from pipeline.run_lock import living_process
from pipeline.run_settings import read_settings, setting


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
        result = audit(read_json_lines(folder.ledger))
    except ValueError as error:
        return Audit(problems=[str(error)])
    batch_size = setting(read_settings(folder), "train.batch_size")
    if not isinstance(batch_size, int):
        result.problems.append(f"{folder.config} names no train.batch_size to compare the recorded steps by")
    elif not _agree(result.num_consumed, num_steps, batch_size, finished, lives):
        result.problems.append(
            f"{num_steps} steps of {batch_size} groups are recorded in metrics.jsonl, but {result.num_consumed} "
            "groups were trained on by the ledger"
        )
    return result


def _agree(num_consumed: int, num_steps: int, batch_size: int, finished: bool, lives: bool) -> bool:
    """Every recorded step has trained on a batch; the step in which a run was stopped has, and is not recorded."""
    least, most = num_steps * batch_size, (num_steps + (not finished)) * batch_size
    return num_consumed >= least and (lives or num_consumed <= most)
