"""Tables that fit the terminal: less important columns are cut or left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from rich.console import Console, ConsoleOptions, RenderResult
from rich.constrain import Constrain
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from .render import one_line, safe_text

#: Characters that a column keeps when it is cut, and on a very narrow terminal.
LEAST, BAREST = 14, 6

#: What stays of a cell that is cut last, such as an id that the user gave: as many characters as a UUID has.
KEPT = 36

#: Characters between two columns.
GAP = 2

TextRow = Sequence[Text]


class Column(msgspec.Struct, frozen=True):
    """`keeps`: what stays of a long cell. Names keep their end, by which most of them differ. With `all`, a
    cell is cut only when it is longer than a UUID and there is no room for the others. A cell that is cut
    keeps `least` characters if possible. `spare`: the highest number is left out first, 0 never."""

    name: str
    right: bool = False
    keeps: Literal["all", "start", "end"] = "all"
    spare: int = 0
    least: int = LEAST


class FittedTable:
    """Rows and columns, laid out when the width is known."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._header = [Text(column.name, style="bold") for column in columns]
        self._rows: list[TextRow] = []

    def add(self, *cells: str | Text) -> None:
        self._rows.append([safe_text(c) if isinstance(c, Text) else Text(one_line(c)) for c in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header, *rows = self.lines(options.max_width)
        yield header
        yield Constrain(Rule(style="none"), header.cell_len)
        yield from rows

    def lines(self, room: int) -> list[Text]:
        """The header and the rows, a line each, without a rule."""
        widths = self._fitted(room)
        return [self._line(row, widths) for row in (self._header, *self._rows)]

    def _line(self, row: TextRow, widths: dict[int, int]) -> Text:
        cells = (_shaped(row[place], self._columns[place], width) for place, width in widths.items())
        line = Text(" " * GAP).join(cells)
        line.no_wrap = True
        return line

    def _fitted(self, room: int) -> dict[int, int]:
        """The width of each column that is shown, by its place."""
        widths = {place: self._natural(place) for place in range(len(self._columns))}
        least = self._cut(widths)
        for place in sorted(widths, key=lambda place: -self._columns[place].spare):
            if _total(least) > room and self._columns[place].spare:
                del widths[place], least[place]
        for place in least:  # a column that is not cut otherwise
            widths[place] -= min(max(0, _total(least) - room), max(0, least[place] - KEPT))
        for most in (10**6, LEAST, BAREST):
            if _total(least) > room:
                least = self._cut(widths, most=most)
        for place in reversed(list(widths)):
            widths[place] -= min(max(0, _total(widths) - room), widths[place] - least[place])
        return widths

    def _cut(self, widths: dict[int, int], *, most: int = 10**6) -> dict[int, int]:
        """The least widths: cells that may be cut keep their `least`, and at most `most`."""
        return {
            place: width
            if (column := self._columns[place]).keeps == "all"
            else min(width, column.least, most)
            for place, width in widths.items()
        }

    def _natural(self, place: int) -> int:
        return max(row[place].cell_len for row in (self._header, *self._rows))


def wrapped_grid(columns: int) -> Table:
    """A table without headings whose last column wraps."""
    grid = Table.grid(padding=(0, GAP))
    for _ in range(columns - 1):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _shaped(given: Text, column: Column, width: int) -> Text:
    cell = given.copy()
    if column.keeps != "start" and cell.cell_len > width:
        while cell.cell_len >= width:
            cell = cell[1:]
        cell = Text("…") + cell
    cell.truncate(width, overflow="ellipsis")
    cell.align("right" if column.right else "left", width)
    return cell


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
