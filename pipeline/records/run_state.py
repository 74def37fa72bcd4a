"""What a resumed run needs beside the trainer's own state; plain JSON, because no pickle is ever loaded."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from exchange.types import Group, Trajectory


@dataclass
class RunState:
    """The run after `version` steps."""

    version: int
    cursor: dict[str, Any]
    next_group: int
    buffered: list[Group]
    in_flight: list[tuple[str, int, str]]  # (group id, epoch, prompt id): asked again after a resume
    ledger_bytes: int  # size of ledger.jsonl; what was written after the checkpoint is cut off
    metrics_bytes: int
    counts: dict[str, int]
    train_time_s: float
    eval_before: dict[str, float] | None = None
    eval_after: dict[str, float] | None = None
    fingerprint: dict[str, Any] = field(default_factory=dict)
    recent_reward_failures: list[bool] = field(default_factory=list)
    num_skipped_steps_in_a_row: int = 0
    ledger_sha256: str = ""  # of those bytes of ledger.jsonl
    began: str = ""  # local time, ISO 8601: what a chat template that writes the date reads

    def began_with(self, ledger: bytes) -> bool:
        """Whether a ledger begins with the rows that it had then; never where an older version recorded no checksum."""
        return ledger_checksum(ledger[: self.ledger_bytes]) == self.ledger_sha256

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(state: Mapping[str, Any]) -> "RunState":
        """Undo `to_json` after JSON; raises KeyError, TypeError or ValueError where `state` is none of ours."""
        fields = dict(state)
        fields["buffered"] = [group_from_json(g) for g in state["buffered"]]
        fields["in_flight"] = [(str(g), int(e), str(p)) for g, e, p in state["in_flight"]]
        return RunState(**fields)


def ledger_checksum(ledger: bytes) -> str:
    """Of `RunState.ledger_sha256`."""
    return hashlib.sha256(ledger).hexdigest()


def group_from_json(value: Mapping[str, Any]) -> Group:
    """Undo `dataclasses.asdict` of a Group that went through JSON."""
    fields = dict(value)
    fields["trajectories"] = tuple(trajectory_from_json(t) for t in value["trajectories"])
    return Group(**fields)


def trajectory_from_json(value: Mapping[str, Any]) -> Trajectory:
    """Undo `dataclasses.asdict` of a Trajectory that went through JSON."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    if fields.get("kept_token_ids") is not None:
        fields["kept_token_ids"] = tuple(tuple(ids) for ids in fields["kept_token_ids"])
    return Trajectory(**fields)
