"""Tables that fit their terminal: what is worth most stays whole, the rest is cut or left out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

#: A column that may be cut keeps so many characters, on a very narrow terminal so few.
LEAST, BAREST = 14, 6

#: Characters between two columns.
GAP = 2

Row = Sequence[str | Text]


class Column(msgspec.Struct, frozen=True):
    """One column. `cut`: long cells may be shortened. `spare`: the higher, the sooner it is left out."""

    name: str
    right: bool = False
    cut: bool = False
    spare: int = 0


class Listing:
    """Rows under columns, laid out when it is known how much room there is."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[Row] = []

    def add(self, *cells: str | Text) -> None:
        self._rows.append(cells)

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

    def _fitted(self, room: int) -> dict[int, int]:
        """The width of each column that is shown, by its place."""
        widths = {place: self._natural(place) for place in range(len(self._columns))}
        least = self._cut(widths, LEAST)
        for place in sorted(widths, key=lambda place: -self._columns[place].spare):
            if _total(least) > room and self._columns[place].spare:
                del widths[place], least[place]
        if _total(least) > room:
            least = self._cut(widths, BAREST)
        for place in reversed(list(widths)):
            widths[place] -= min(max(0, _total(widths) - room), widths[place] - least[place])
        return widths

    def _cut(self, widths: dict[int, int], least: int) -> dict[int, int]:
        """The same widths, where cells may be cut no more than `least`."""
        return {
            place: min(width, least) if self._columns[place].cut else width for place, width in widths.items()
        }

    def _natural(self, place: int) -> int:
        cells = [self._columns[place].name, *(row[place] for row in self._rows)]
        return max(cell.cell_len if isinstance(cell, Text) else Text(cell).cell_len for cell in cells)


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
