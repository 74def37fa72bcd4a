"""How far an evaluation is: a bar on a terminal, a line every tenth elsewhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pipeline.evaluation.answers import Problem


class EvaluationProgress:
    """Counts answered problems and the share whose first answer scores full marks."""

    def __init__(self, console: Console, correct_at: float) -> None:
        self._console, self._correct_at = console, correct_at
        self._answered = self._scored = self._correct = self._tenths = 0
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=console)
            self._task = self._bar.add_task("asking", total=None)

    def __enter__(self) -> "EvaluationProgress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def answered(self, problem: Problem, total: int) -> None:
        """One more problem of `total` has its answers."""
        self._answered += 1
        if not problem.answers[0].reward_failed:
            self._scored += 1
            self._correct += problem.answers[0].lenient >= self._correct_at
        share = f"{self._correct / max(1, self._scored):.1%} correct at the first try"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._answered, total=total, description=share)
        elif self._answered * 10 // total > self._tenths:
            self._tenths = self._answered * 10 // total
            self._console.print(f"{self._answered} of {total} problems answered, {share}")
