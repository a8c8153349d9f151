"""Tables that fit the terminal: less important columns are cut or left out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from .render import one_line, safe_text

#: Characters that a column keeps when it is cut, and on a very narrow terminal.
LEAST, BAREST = 14, 6

#: Characters between two columns.
GAP = 2

Row = Sequence[str | Text]


class Column(msgspec.Struct, frozen=True):
    """`cut`: long cells may be shortened; they keep `least` characters if possible. `spare`: the highest
    number is left out first, 0 never."""

    name: str
    right: bool = False
    cut: bool = False
    spare: int = 0
    least: int = LEAST


class FittedTable:
    """Rows and columns, laid out when the width is known."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[Row] = []

    def add(self, *cells: str | Text) -> None:
        self._rows.append([safe_text(c) if isinstance(c, Text) else one_line(c) for c in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._fitted(options.max_width)
        table = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, header_style="bold"
        )
        for place, width in widths.items():
            column = self._columns[place]
            table.add_column(
                column.name,
                justify="right" if column.right else "left",
                width=width,
                no_wrap=True,
                overflow="ellipsis" if column.cut else "crop",
            )
        for row in self._rows:
            table.add_row(*(row[place] for place in widths))
        yield table

    def lines(self, room: int) -> list[Text]:
        """The header and the rows, a line each, without a rule."""
        widths = self._fitted(room)
        header = [Text(column.name, style="bold") for column in self._columns]
        return [self._line(row, widths) for row in (header, *self._rows)]

    def _line(self, row: Row, widths: dict[int, int]) -> Text:
        cells = []
        for place, width in widths.items():
            given = row[place]
            cell = given.copy() if isinstance(given, Text) else Text(given)
            cell.truncate(width, overflow="ellipsis" if self._columns[place].cut else "crop")
            cell.align("right" if self._columns[place].right else "left", width)
            cells.append(cell)
        return Text(" " * GAP).join(cells)

    def _fitted(self, room: int) -> dict[int, int]:
        """The width of each column that is shown, by its place."""
        widths = {place: self._natural(place) for place in range(len(self._columns))}
        least = self._cut(widths)
        for place in sorted(widths, key=lambda place: -self._columns[place].spare):
            if _total(least) > room and self._columns[place].spare:
                del widths[place], least[place]
        if _total(least) > room:
            least = self._cut(widths, most=BAREST)
        for place in reversed(list(widths)):
            widths[place] -= min(max(0, _total(widths) - room), widths[place] - least[place])
        return widths

    def _cut(self, widths: dict[int, int], most: int = 10**6) -> dict[int, int]:
        """The least widths: cells that may be cut keep their `least`, and at most `most`."""
        return {
            place: min(width, column.least, most) if (column := self._columns[place]).cut else width
            for place, width in widths.items()
        }

    def _natural(self, place: int) -> int:
        cells = [self._columns[place].name, *(row[place] for row in self._rows)]
        return max(cell.cell_len if isinstance(cell, Text) else Text(cell).cell_len for cell in cells)


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
