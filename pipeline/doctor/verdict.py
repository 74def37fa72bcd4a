"""What one rung of the ladder found."""

from dataclasses import dataclass
from typing import Literal

State = Literal["passed", "failed", "not applicable"]


@dataclass(frozen=True)
class Verdict:
    """One rung's result. `cause` and `key` say what is wrong and which config key fixes it when it failed."""

    rung: str
    state: State
    note: str  # what was looked at, or why it does not apply
    figure: float | None = None  # what was measured, held against `limit`
    limit: float | None = None
    cause: str | None = None
    key: str | None = None
    seconds: float = 0.0


def passed(rung: str, note: str, figure: float | None = None, limit: float | None = None) -> Verdict:
    return Verdict(rung, "passed", note, figure, limit)


def failed(
    rung: str, note: str, cause: str, key: str | None, figure: float | None = None, limit: float | None = None
) -> Verdict:
    return Verdict(rung, "failed", note, figure, limit, cause, key)


def not_applicable(rung: str, why: str) -> Verdict:
    return Verdict(rung, "not applicable", why)
