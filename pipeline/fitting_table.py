"""Text and tables for a terminal of any width: nothing is cut, and words and paths are not folded."""

from collections.abc import Sequence
from typing import IO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

UNLIMITED = 10_000  # columns


def plain_console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """The console of every command: the terminal wraps long lines, and brackets in a user's text are not markup."""
    return Console(highlight=False, markup=False, soft_wrap=True, file=file, width=width)


class FittingTable:
    """A table with one line per row; in a terminal too narrow for that, a block per row with one line per cell.

    Args:
        header: names of the columns; the first cell of a row names its block.
        title: printed above.
        numbers: right-align every column but the first.
    """

    def __init__(self, header: Sequence[str], title: str | None = None, numbers: bool = False) -> None:
        self.header, self._title, self._numbers = tuple(header), title, numbers
        self.rows: list[tuple[Text, ...]] = []

    def add_row(self, *cells: str | Text | None) -> None:
        self.rows.append(tuple(cell if isinstance(cell, Text) else Text(cell or "") for cell in cells))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table()
        needed = table.__rich_measure__(console, options.update(max_width=UNLIMITED)).maximum
        if self._title is not None:
            yield Text(self._title, style="italic")  # not the table's, which folds it to the width of the columns
        yield table if needed <= options.max_width else self._blocks()

    def _table(self) -> Table:
        table = Table()
        for i, name in enumerate(self.header):
            table.add_column(Text(name), justify="right" if self._numbers and i else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table

    def _blocks(self) -> RenderableType:
        parts, width = list[Text](), max(map(len, self.header), default=0)
        for first, *rest in self.rows:
            parts.append(Text.assemble(f"{self.header[0]} ", first))
            parts += [
                Text.assemble(f"  {name:<{width}}  ", cell) for name, cell in zip(self.header[1:], rest, strict=True)
            ]
        return Group(*parts)
