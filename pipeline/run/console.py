"""The live view of a run: a Rich table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from rich.console import Console as RichConsole
from rich.console import Group as RichGroup
from rich.live import Live
from rich.text import Text

from actor.kl import kl_health
from pipeline.fitting_table import FittingTable, plain_console

NUM_NOTES = 5  # that stay on a terminal


class RunConsole:
    """Shows phases, steps, workers, alarms, notes and an estimate of the time left."""

    def __init__(self, name: str, total_steps: int, rich: RichConsole | None = None) -> None:
        self._rich = rich or plain_console()
        self._name, self._total = name, total_steps
        self._live: Live | None = None
        self._row: Mapping[str, float | int | None] = {}
        self._phase, self._notes, self._alarms = "starting", list[str](), list[str]()
        self._workers: Callable[[], Sequence[str]] = lambda: ()
        self._started, self._first_step = time.monotonic(), 0
        self._last_eval: float | None = None

    def __enter__(self) -> "RunConsole":
        if self._rich.is_terminal:
            self._live = Live(get_renderable=self._view, console=self._rich, refresh_per_second=2)
            self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.__exit__(kind, e, tb)

    def phase(self, text: str) -> None:
        """What the run is doing now, before and between steps."""
        self._phase = text
        self._line(text)

    def note(self, text: str) -> None:
        """Something that happened and stays visible: a replaced worker, a checkpoint."""
        self._notes = [*self._notes, text][-NUM_NOTES:]
        self._line(text)

    def workers(self, states: Callable[[], Sequence[str]]) -> None:
        """Where to read the rollout workers' states from, while the run lasts."""
        self._workers = states

    def alarms(self, step: int, found: Sequence[str]) -> None:
        """What is wrong after `step`; it stays on a terminal until it is over, and is a line only when it is new."""
        new = [sentence for sentence in found if sentence not in self._alarms]
        self._alarms = list(found)
        for sentence in new:
            self._line(f"alarm at step {step}: {sentence}")

    def begin_steps(self, first_step: int) -> None:
        """Training starts at `first_step`; the time left is estimated from here."""
        self._started, self._first_step = time.monotonic(), first_step
        self.phase("training")

    def step(self, row: Mapping[str, float | int | None]) -> None:
        """Show a finished step's metrics."""
        self._row = row
        self._last_eval = row.get("eval/reward", self._last_eval)
        self._line(" ".join(f"{name} {text}" for name, text in self._cells()))

    def _cells(self) -> list[tuple[str, str]]:
        row, step = self._row, int(self._row.get("step") or 0)
        return [
            ("step", f"{step}/{self._total}"),
            ("reward", _number(row.get("rl/reward"), ".3f")),
            ("eval", _number(self._last_eval, ".3f")),
            ("lag", _number(row.get("rl/lag"), ".2f")),
            ("|Δ|lag0", _number(row.get("mismatch/lag_0/abs_logp_diff"), ".1e")),
            ("clip", _number(row.get("ppo_actor/update/clip_ratio/avg"), ".3f")),
            ("generated tok/s", _number(row.get("throughput/generated_tokens_per_s"), ".0f")),
            ("trained tok/s", _number(row.get("throughput/trained_tokens_per_s"), ".0f")),
            *_reference_kl(row.get("actor/kl_k2")),
            ("buffer", _number(row.get("buffer/num_groups"), ".0f")),
            ("left", self._time_left(step)),
        ]

    def _time_left(self, step: int) -> str:
        done = step - self._first_step
        if done <= 0:
            return "–"
        seconds = (time.monotonic() - self._started) / done * (self._total - step)
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}"

    def _line(self, text: str) -> None:
        """A line where there is no live view, which reads what it shows by itself."""
        if self._live is None:
            self._rich.print(f"[{self._name}] {text}")

    def _view(self) -> RichGroup:
        cells = self._cells() if self._row else []
        table = FittingTable([name for name, _ in cells], f"{self._name}: {self._phase}", numbers=True)
        if cells:
            table.add_row(*(text for _, text in cells))
        alarms = (Text(f"alarm: {sentence}", style="bold red") for sentence in self._alarms)
        return RichGroup(table, *map(Text, self._workers()), *alarms, *map(Text, self._notes))


def _reference_kl(kl: float | None) -> list[tuple[str, str]]:
    """The KL against the reference and what it says; nothing where the run has no reference."""
    return [] if kl is None else [("KL", f"{kl:.3f} {kl_health(kl)}")]


def _number(value: float | int | None, form: str) -> str:
    return "–" if value is None else format(value, form)
