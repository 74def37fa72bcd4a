"""The ladder on the terminal, one line a rung as soon as it is known."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pipeline.doctor.ladder import first_cause
from pipeline.doctor.verdict import Verdict

_MARKS = {"passed": ("passed", "green"), "failed": ("FAILED", "bold red"), "not applicable": ("n/a   ", "dim")}


def mark(verdict: Verdict) -> Text:
    """The verdict's state in six colored letters."""
    return Text(*_MARKS[verdict.state])


def show_verdict(console: Console, verdict: Verdict) -> None:
    """Mark, rung, figure against limit, what was looked at."""
    line = f"  {verdict.rung:<24}{measured(verdict):<22}  "
    console.print(Text.assemble(mark(verdict), line, (verdict.note, "dim")))


def measured(verdict: Verdict) -> str:
    """The figure and its limit, empty without one."""
    if verdict.figure is None:
        return ""
    return f"{verdict.figure:.1e} (≤ {verdict.limit:g})"


def show_outcome(console: Console, verdicts: Sequence[Verdict]) -> None:
    """The first cause in one sentence with the key that fixes it."""
    console.print(outcome(verdicts))


def outcome(verdicts: Sequence[Verdict]) -> str:
    """One sentence."""
    first = first_cause(verdicts)
    if first is None:
        left_out = sum(v.state == "not applicable" for v in verdicts)
        return "Sampler and trainer agree on every rung" + (f" that applies ({left_out} do not)." if left_out else ".")
    key = f" (see {first.key})" if first.key else ""
    return f"First cause, at rung '{first.rung}': {first.cause}{key}."
