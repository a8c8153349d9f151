"""Queues and groups with their numbers and graphs; the rows around the selected one where not all fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from rich.text import Text

from headrace.admin import Traffic
from headrace.admin.place import Place
from headrace.cli.render import number_text
from headrace.cli.span import age, spoken
from headrace.cli.table import GAP, Column, Listing

from .pace import Pace, total
from .panel import Panel
from .rows import Row
from .sparkline import fitting, sparkline

#: Columns: below this the headings are shorter.
WIDE: Final = 100

#: Columns: from this on room is kept for a graph of so many.
GRAPH_FROM: Final = 72
LEAST_GRAPH: Final = 10

#: Characters from which on a graph has room for its name in full.
NAMED: Final = 20

_LONG: Final = ("running", "scheduled", "retrying", "dead", "oldest", "done/s", "failed/s")
_SHORT: Final = ("run", "sched", "retry", "dead", "oldest", "done/s", "fail/s")
_GRAPHS: Final = (("done 1h", "done, last hour"), ("failed 1h", "failed, last hour"))
_GRAPH: Final = ("1 hour", "last hour")

#: The higher, the sooner a column is left out: that of what waits comes before these.
_SPARE: Final = (0, 3, 1, 0, 2, 0, 4)

MARK: Final = "▸ "

#: A line of the table: a row, headings by the name of the first, or an empty one.
Entry: TypeAlias = Row | str


def height(panel: Panel, *, air: int = 0) -> int:
    """The lines of the whole table."""
    return len(_entries(panel.rows, air)) or 1


def table(panel: Panel, width: int, room: int, *, air: int = 0) -> list[Text]:
    """At most `room` lines, the selected one among them; `air`: empty ones before the topics."""
    if not panel.rows:
        return [Text("no queue and no topic has been used yet", style="dim")][: max(0, room)]
    entries = _entries(panel.rows, air)
    lines = _listing(panel.pace, entries, width).lines(width - len(MARK))[1:]
    at = next((at for at, entry in enumerate(entries) if _is_of(entry, panel.selected)), None)
    marked = [Text(MARK if place == at else " " * len(MARK)) + line for place, line in enumerate(lines)]
    if at is not None:
        marked[at].truncate(width, overflow="crop", pad=True)
        marked[at].stylize("reverse")
    return _window(marked, at or 0, room)


def _entries(rows: list[Row], air: int) -> list[Entry]:
    queues = [row for row in rows if row.place.topic is None]
    groups = [row for row in rows if row.place.topic is not None]
    entries: list[Entry] = ["queue", *queues] if queues else []
    between: list[Entry] = [""] * air if entries else []
    return [*entries, *between, "topic/group", *groups] if groups else entries


def _is_of(entry: Entry, place: Place | None) -> bool:
    return isinstance(entry, Row) and entry.place == place


def _listing(pace: Pace, entries: list[Entry], width: int) -> Listing:
    """As many columns as fit, and graphs in what is left."""
    room = width - len(MARK)
    kept = GAP + LEAST_GRAPH if width >= GRAPH_FROM else 0
    left = room - _filled(pace, entries, width, ()).width(room - kept)
    both = fitting((left - 2 * GAP) // 2)
    graphs = (both, both) if both >= LEAST_GRAPH else (fitting(left - GAP),)
    return _filled(pace, entries, width, tuple(filter(None, graphs)))


def _filled(pace: Pace, entries: list[Entry], width: int, graphs: tuple[int, ...]) -> Listing:
    columns = [Column("", right=True, spare=spare) for spare in (0, *_SPARE)]
    listing = Listing(Column("", cut=True), *columns, *(Column("") for _ in graphs))
    for entry in entries:
        if isinstance(entry, Row):
            listing.add(*_cells(entry, pace, graphs))
        else:
            names = _headings(entry, width, graphs) if entry else [""] * (len(columns) + 1 + len(graphs))
            listing.add(*(Text(name, style="bold") for name in names))
    return listing


def _headings(first: str, width: int, graphs: Sequence[int]) -> list[str]:
    wide = width >= WIDE
    waiting = ("waiting" if wide else "wait") if first == "queue" else "lag"
    last = [names[graph >= NAMED] for names, graph in zip(_GRAPHS, graphs, strict=False)]
    if len(graphs) == 1:
        last = [_GRAPH[graphs[0] >= LEAST_GRAPH]]
    return [first, waiting, *(_LONG if wide else _SHORT), *last]


def _cells(row: Row, pace: Pace, graphs: Sequence[int]) -> list[str | Text]:
    traffic = row.traffic
    if not row.is_steerable:
        return [str(row.place), Text("no group", style="dim"), *([""] * len(_LONG)), *([""] * len(graphs))]
    waited = age(row.oldest)
    return [
        str(row.place),
        number_text(row.waiting),
        number_text(row.running, "green"),
        number_text(row.scheduled),
        number_text(row.retrying, "yellow"),
        number_text(row.dead, "red"),
        "" if waited is None else spoken(waited),
        # One that is paused does nothing, so that there is room to say so.
        Text("paused", style="yellow") if row.paused else rate_text(pace.per_second(traffic.done)),
        rate_text(pace.per_second(traffic.failed), "red"),
        *_drawn(traffic, graphs),
    ]


def _drawn(traffic: Traffic, graphs: Sequence[int]) -> list[Text]:
    """One graph of all that ended, or one of what was done and one of what failed."""
    if len(graphs) == 1:
        return [sparkline(total([traffic.done, traffic.failed]), graphs[0], "green", bad=traffic.failed)]
    counts = ((traffic.done, "green"), (traffic.failed, "red"))
    return [sparkline(each, width, style) for (each, style), width in zip(counts, graphs, strict=False)]


def rate_text(rate: float, style: str = "") -> Text:
    """A rate in two digits or more; any at all is more than none."""
    if rate <= 0:
        return Text("0", style="dim")
    shown = f"{rate:,.0f}" if rate >= 99.5 else f"{rate:.1f}" if rate >= 0.095 else f"{max(rate, 0.01):.2f}"
    return Text(shown, style=style)


def _window(lines: list[Text], at: int, room: int) -> list[Text]:
    """The headings, and what fits of the rest with line `at` in the middle of it."""
    if len(lines) <= room:
        return lines
    if room < 5:
        return lines[max(0, at - room + 1) :][: max(0, room)]
    body, room = lines[1:], room - 1
    start = min(max(0, at - 1 - room // 2), len(body) - room)
    shown = body[start : start + room]
    if start:
        shown[0] = Text(f"  ↑ {start + 1:,} more", style="dim")
    if below := len(body) - start - room:
        shown[-1] = Text(f"  ↓ {below + 1:,} more", style="dim")
    return [lines[0], *shown]
