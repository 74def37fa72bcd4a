"""Tables in a terminal of 80 columns, of the widest contents that the commands show."""

import io
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from pipeline.ablation.result import Spread, VariantResult
from pipeline.ablation.runner import final_table
from pipeline.commands.status import show_table
from pipeline.fitting_table import FittingTable, plain_console
from pipeline.jobs.queue import Job, JobQueue
from pipeline.records.run_folder import RunFolder
from pipeline.report.status import RunStatus
from pipeline.run.console import RunConsole

WIDTH = 80
LONG_PATH = Path("/a/folder") / "far-below-the-root" / ("x" * 80)


def shown(renderable: RenderableType, width: int = WIDTH) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(renderable)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_table_that_fits_is_a_table() -> None:
    table = FittingTable(("run", "step"), title="All runs")
    table.add_row("a", "3")
    assert shown(table)[0].strip() == "All runs" and "│ a   │ 3    │" in shown(table)


def test_one_that_does_not_fit_is_a_block_for_each_row() -> None:
    table = FittingTable(("run", "step", "held-out reward"), title="All runs")
    table.add_row("a", "3", None)
    table.add_row("[b]", "4", "0.5")
    assert shown(table, 24) == [
        "All runs",
        "run a",
        "  step             3",
        "  held-out reward",
        "run [b]",
        "  step             4",
        "  held-out reward  0.5",
    ]


def test_a_title_wider_than_its_table_is_not_folded() -> None:
    table = FittingTable(("a", "b"), title="A title of more words than two columns hold")
    table.add_row("1", "2")
    assert "A title of more words than two columns hold" in [line.strip() for line in shown(table)]


def ablation() -> RenderableType:
    time, reward = Spread(183.0, 12.0, 3), Spread(0.123, 0.045, 3)
    return final_table([VariantResult(name, time, reward, reward) for name in ("loglinear", "reuse")])


def queue() -> RenderableType:
    job = Job("v1_processed_logprobs", 1, RunFolder(LONG_PATH), LONG_PATH / "job.yaml", (), failed=True)
    return JobQueue([job], 1, Console(file=io.StringIO()))._table()


def live_run() -> RenderableType:
    console = RunConsole("quickstart-seed1", 80)
    console.step({"step": 3, "rl/reward": 0.5, "rl/lag": 1.0, "actor/kl_k2": 0.3})
    return console._view()


@pytest.mark.parametrize(
    ("table", "whole"),
    [
        (ablation, ["Differs from baseline in", "(baseline)", "Final task reward", "0.123 ± 0.045"]),
        (queue, ["v1_processed_logprobs", "failed"]),
        (live_run, ["quickstart-seed1: starting", "generated tok/s", "trained tok/s", "0.300 drifting"]),
    ],
)
def test_at_80_columns_no_heading_is_folded_and_no_cell_is_cut(
    table: Callable[[], RenderableType], whole: list[str]
) -> None:
    lines = shown(table())
    assert all(any(part in line for line in lines) for part in whole), "\n".join(lines)
    assert not any("…" in line for line in lines) and max(map(len, lines)) <= WIDTH


def test_a_command_does_not_fold_or_cut_paths_and_reads_no_markup(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    status = dict.fromkeys((f.name for f in fields(RunStatus)), None)
    name = str(LONG_PATH / "[red]" / "seed-1")
    one = RunStatus(**status | {"name": name, "state": "stopped", "step": 3, "alarms": ("it ended",)})  # type: ignore[arg-type]
    show_table([one, one], plain_console())
    lines = capsys.readouterr().out.splitlines()
    assert f"run {name}" in lines and f"{name}: it ended" in lines
