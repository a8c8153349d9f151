"""The screen as something that rich draws: a pure function of the state and of the size of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.text import Text

from headrace.admin import GroupInfo
from headrace.cli.commands.workers import summary, workers_table
from headrace.cli.output.render import meter, number_text, safe_text, short
from headrace.cli.output.table import LEAST, Column, FittedTable, wrapped_grid
from headrace.cli.status.snapshot import Snapshot, state_cells
from headrace.core.records.findings import Level
from headrace.core.records.record import WorkerInfo
from headrace.core.values.whole_numbers import counted
from headrace.dashboard.text import share

from .state import WatchRow, WatchState, total, warnings

#: Lines of the terminal: room for two lines at the bottom, for graphs, for empty lines between the parts.
ROOMY, GRAPHS, SPACED = 12, 14, 20

#: Columns of the terminal from which on headings are whole words, and graphs of a queue have more bars.
WIDE, VERY_WIDE = 100, 150

#: Numbers of bars, so that each bar is a whole number of minutes, and columns beside the bars of all queues.
BAR_COUNTS, BESIDE = (60, 30, 20, 15, 12, 10, 6), 44

#: No jobs are the lowest bar, so that an hour without jobs is still a line.
BARS: Final = "▁▂▃▄▅▆▇█"

#: Headings on a wide and on a narrow terminal. The higher the number, the sooner a column is left out.
_NUMBERS: Final = (
    ("waiting", "wait", 0),
    ("running", "run", 0),
    ("scheduled", "sched", 4),
    ("retrying", "retry", 1),
    ("dead", "dead", 0),
    ("oldest", "oldest", 2),
    ("done/s", "done/s", 0),
    ("failed/s", "fail/s", 5),
)
_GRAPHS: Final = {"last hour": 3, "failed": 6}

_MARK: Final = "▸ "

_HELP: Final = (
    ("↑ ↓  k j", "select the queue or group above or below; page up, page down, home, end"),
    ("p", "pause it, or resume it; running jobs go on either way"),
    ("r", "run its dead letters again, after a question (y)"),
    ("?", "this page"),
    ("q  Esc", "quit, as does Ctrl-C; Ctrl-Z suspends it until fg"),
    ("", ""),
    ("waiting", "jobs that are ready; for a group its lag: events that no member has begun to handle"),
    ("scheduled", "jobs that are due later; retrying: due again after a failure"),
    ("dead", "do not run again by themselves: headrace dead lists them"),
    ("oldest", "for how long the first of the waiting jobs has waited"),
    ("done/s", "in the last minute; failed/s counts failures that are tried again too"),
    ("last hour", "done and failed, a bar for each minute or for a few, the latest on the right"),
)


def frame(state: WatchState, width: int, height: int) -> Layout:
    """The title, the body, and the keys in the last line."""
    foot = [_message(state, width), _keys(state)]
    if height < ROOMY:
        foot = [line for line in foot if line.plain][:1]
    room = max(0, height - 1 - len(foot))
    screen = Layout()
    screen.split_column(
        Layout(_lines([_title(state, width)]), size=1),
        Layout(_body(state, width, room)),
        Layout(_lines(foot), size=len(foot)),
    )
    return screen


def _lines(lines: Sequence[Text]) -> Group:
    """A line each, cut at the edge."""
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*map(safe_text, lines))


def _title(state: WatchState, width: int) -> Text:
    clock = datetime.now().astimezone().strftime("%H:%M:%S")
    title = Text("headrace", style="bold")
    if state.problem:
        since = f" since {state.snapshot.at.astimezone():%H:%M:%S}" if state.snapshot else ""
        title.append(f"  unavailable{since}", "red")
    title.append(f"  {state.store}", "not bold")
    title.truncate(max(0, width - len(clock) - 2), overflow="ellipsis", pad=True)
    return title.append(f"  {clock}", "dim")


def _body(state: WatchState, width: int, room: int) -> RenderableType:
    if state.showing_help:
        page = wrapped_grid(2)
        for name, text in _HELP:
            page.add_row(Text(name, style="bold"), text)
        return Group("", page)
    if state.snapshot is None:
        return _lines([*_warnings(state, width, 1), Text(), Text("asking the store …", style="dim")])
    lines = _overview(state, state.snapshot, width, room)
    for line in lines[1:] if state.problem else ():
        line.stylize("dim")
    return _lines(lines)


def _overview(state: WatchState, seen: Snapshot, width: int, room: int) -> list[Text]:
    """The table of queues and groups has its lines first, then the workers; warnings have a few."""
    gap = [Text()] if room >= SPACED else []
    parts = [_warnings(state, width, max(1, room // 4))]
    parts += [_graphs(state, seen, width)] if room >= GRAPHS else []
    parts = [[*part, *gap] for part in parts if part]
    left = room - sum(map(len, parts))
    table = _table(state, width, gap)
    workers = _workers(seen.workers, width, max(1 if left > 5 else 0, left - len(table) - len(gap)))
    workers = [*gap, *workers] if workers else []
    return [*chain(*parts), *_window(table, left - len(workers)), *workers]


def _warnings(state: WatchState, width: int, most: int) -> list[Text]:
    found = [(state.problem, "bold red")] if state.problem else []
    if state.snapshot:
        known = warnings(state.snapshot, state.findings)
        found += [(text, "red" if level is Level.FAIL else "yellow") for text, level in known]
    lines = [Text(f"! {short(text, 300)}", style=style) for text, style in found[:most]]
    if rest := len(found) - len(lines):
        more = f" (and {rest:,} more)"
        lines[-1].truncate(width - len(more), overflow="ellipsis")
        lines[-1].append(more, "dim")
    return lines


def _graphs(state: WatchState, seen: Snapshot, width: int) -> list[Text]:
    """All queues and groups together, in two lines."""
    done, failed = total([each.done for each in seen.traffic]), total([each.failed for each in seen.traffic])
    part = share(sum(failed), sum(done) + sum(failed))
    bars = next((each for each in BAR_COUNTS if each <= width - BESIDE), 0)
    listing = FittedTable(Column(""), Column("", right=True), Column(""), Column("", keeps="start"))
    for name, counts, style, text in (
        ("done", done, "green", f"{sum(done):,} in the last hour"),
        ("failed", failed, "red", f"{sum(failed):,} failed ({part})"),
    ):
        rate = _rate(state.rates.per_second(counts)).append("/s")
        listing.add(Text(name, "bold"), rate, sparkline(counts, bars, style), Text(text, "dim"))
    return listing.lines(width)[1:]


def _workers(workers: list[WorkerInfo], width: int, room: int) -> list[Text]:
    """A line for each worker; where there is no room for all of them, the last line sums them up."""
    found = sorted(workers, key=lambda each: each.consumer)
    lines = workers_table(found).lines(width) if found else []
    if 0 < len(lines) <= room:
        return lines
    shown = room - 1 if room >= 4 else 0
    return [*lines[:shown], Text(summary(found), style="" if found else "yellow")][:room]


def _table(state: WatchState, width: int, gap: list[Text]) -> list[Text]:
    """Queues, and groups under a heading of their own. The selected row begins with a mark."""
    listing = FittedTable(
        Column("", keeps="end", least=30 if width >= WIDE else LEAST),
        *(Column("", right=True, spare=spare) for _, _, spare in _NUMBERS),
        *(Column("", spare=spare) for spare in _GRAPHS.values()),
    )
    names = [name if width >= WIDE else shorter for name, shorter, _ in _NUMBERS]
    queues = [row for row in state.rows if row.place.topic is None]
    groups = [row for row in state.rows if row.place.topic is not None]
    marks: list[bool] = []
    for heading, rows in (("queue", names[0]), queues), (("topic/group", "lag"), groups):
        if rows:
            listing.add(*(Text(name, "bold") for name in (*heading, *names[1:], *_GRAPHS)))
            marks += [False, *(row.place == state.selected for row in rows)]
        for row in rows:
            listing.add(*_cells(state, row, 30 if width >= VERY_WIDE else 10))
    lines = [
        _marked(line, mark, width) for line, mark in zip(listing.lines(width - 2)[1:], marks, strict=True)
    ]
    if queues and groups:
        lines[len(queues) + 1 : len(queues) + 1] = gap
    return lines or [Text("no queue and no topic has been used yet", style="dim")]


def _marked(line: Text, mark: bool, width: int) -> Text:
    marked = Text(_MARK if mark else "  ") + line
    if mark:
        marked.truncate(width, overflow="crop", pad=True)
        marked.stylize("reverse")
    return marked


def _cells(state: WatchState, row: WatchRow, bars: int) -> list[str | Text]:
    info, done, failed = row.info, row.traffic.done, row.traffic.failed
    if info is None:
        rest = len(_NUMBERS) + len(_GRAPHS) - 1
        return [str(row.place), Text("no group", style="dim"), *[""] * rest]
    return [
        str(row.place),
        number_text(info.lag if isinstance(info, GroupInfo) else info.queued),
        *state_cells(info),
        # A paused queue does nothing, so there is room for the word.
        Text("paused", style="yellow") if info.paused else _rate(state.rates.per_second(done)),
        _rate(state.rates.per_second(failed), "red"),
        sparkline(total([done, failed]), bars, "green", bad=failed),
        sparkline(failed, bars, "red"),
    ]


def _window(lines: list[Text], room: int) -> list[Text]:
    """The heading, and as many lines around the selected one as there is room for."""
    at = next((at for at, line in enumerate(lines) if line.plain.startswith(_MARK)), 0)
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


def _message(state: WatchState, width: int) -> Text:
    if (asked := state.asking) is not None:
        what = f"Replay {counted(asked.count, 'dead letter')} of {asked.place}?"
        return Text(f"{what} y replays, any other key leaves them", style="bold yellow")
    if (running := state.running) is None:
        return Text(state.message, style="red" if state.is_error else "green")
    if not running.count:
        return Text(f"{running} …")
    bar = meter(state.replayed / running.count, min(30, width // 4), "green")
    return Text(f"{running}: {state.replayed:,} of {running.count:,}  ").append_text(bar)


def _keys(state: WatchState) -> Text:
    if state.asking is not None:
        return Text()  # the question names its keys
    info = state.current.info if state.current else None
    keys = {
        "↑↓": "select",
        "p": "resume" if info and info.paused else "pause",
        "r": f"replay {info.dead:,} dead" if info and info.dead else "replay",
        "?": "help",
        "q": "quit",
    }
    shown = {"any key": "back", "q": "quit"} if state.showing_help else keys
    return Text("   ").join(Text.assemble((key, "bold"), (f" {what}", "dim")) for key, what in shown.items())


def sparkline(counts: Sequence[int], width: int, style: str, *, bad: Sequence[int] = ()) -> Text:
    """The latest minute is on the right. A bar is red where half of it, or more, is `bad`."""
    bars, bad_bars = _gathered(counts, width), _gathered(bad, width)
    highest = max(bars, default=0)
    graph = Text()
    for bar, bad_bar in zip(bars, bad_bars, strict=True):
        level = 1 + bar * (len(BARS) - 2) // highest if bar else 0
        graph.append(BARS[level], "dim" if not bar else "red" if 2 * bad_bar >= bar else style)
    return graph


def _gathered(counts: Sequence[int], width: int) -> list[int]:
    """Minutes added up to as many bars as there is room for."""
    if not width:
        return []
    size = -(-len(counts) // width) or 1
    padded = [0] * (size * width - len(counts)) + list(counts)
    return [sum(padded[start : start + size]) for start in range(0, len(padded), size)]


def _rate(rate: float, style: str = "") -> Text:
    """Two digits or more; a rate above 0 is never shown as 0."""
    if rate <= 0:
        return Text("0", style="dim")
    shown = f"{rate:,.0f}" if rate >= 99.5 else f"{rate:.1f}" if rate >= 0.095 else f"{max(rate, 0.01):.2f}"
    return Text(shown, style=style)
