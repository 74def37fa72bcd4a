"""A user's text may hold brackets, which Rich would read as markup: one console for every command, without it."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.doctor.console import show_verdict
from pipeline.doctor.verdict import Verdict
from pipeline.fitting_table import FittingTable, plain_console

ROOT = Path(__file__).parents[2]
FOLDERS = ("pipeline", "examples", "benchmarks", "rollout", "actor", "scripts")
PARSES_MARKUP = re.compile(r"\bConsole\(|markup=True|from_markup|\brich\.print\b|from rich import print")


def test_every_console_is_the_plain_one() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PARSES_MARKUP.search(line) and not re.search(r"RunConsole\(|class ", line)
    ]
    assert [place.partition(":")[0] for place in found] == ["pipeline/fitting_table.py"], found


@pytest.mark.parametrize("text", ["[red]", "data[0].jsonl", "[/]", "a [link=x] b"])
def test_brackets_are_printed_as_they_are(text: str) -> None:
    out = io.StringIO()
    console: Console = plain_console(out, width=200)
    console.print(text)
    table = FittingTable(["name", "value"], title=f"study {text}")
    table.add_row(text, text)
    console.print(table)
    show_verdict(console, Verdict("tokens", "passed", note=f"note {text}"))
    assert out.getvalue().count(text) == 5
