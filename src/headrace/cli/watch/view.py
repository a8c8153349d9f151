"""The screen as lines of text: a pure function of the state and of the size of the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.text import Text

from headrace.admin.diagnosis import diagnose, workloads
from headrace.admin.doctor import one_line
from headrace.cli.commands.workers import summary, workers_table
from headrace.cli.output.render import meter, number_text, short
from headrace.cli.output.table import Column, FittedTable
from headrace.core.records.findings import Level
from headrace.core.values.times import age_text
from headrace.dashboard.text import share

from .state import WatchRow, WatchState, question, total

#: Lines of the terminal: room for two lines at the bottom, for graphs, for empty lines between the parts.
ROOMY, GRAPHS, SPACED = 12, 14, 20

#: Columns of the terminal, and the widths of the graphs of each row from there on. Two: done, and failed.
ROW_GRAPHS: Final = ((180, (30, 30)), (140, (15, 15)), (72, (10,)), (0, ()))

#: Columns from which on headings are whole words.
WIDE: Final = 100

#: Widths at which a bar of a graph is a whole number of minutes.
WIDTHS: Final = (60, 30, 20, 15, 12, 10, 6)

#: No jobs are the lowest bar, so that an hour without jobs is still a line.
BARS: Final = "▁▂▃▄▅▆▇█"

_NAMES: Final = ("running", "scheduled", "retrying", "dead", "oldest", "done/s", "failed/s")
_SHORT_NAMES: Final = ("run", "sched", "retry", "dead", "oldest", "done/s", "fail/s")
_SPARE: Final = (0, 3, 1, 0, 2, 0, 4)  # the higher, the sooner a column is left out

_SELECTED: Final = "▸ "

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


def frame(state: WatchState, width: int, height: int) -> list[Text]:
    """As many lines as the terminal has; the keys are in the last."""
    foot = _foot(state, width, height)
    room = max(0, height - 1 - len(foot))
    if state.showing_help:
        body = _help(width)
    elif state.snapshot is None:
        body = [*_problem(state), Text(), Text("asking the store …", style="dim")]
    else:
        body = _overview(state, width, room)
    body = [*body[:room], *(Text() for _ in range(room - len(body)))]
    return [_title(state, width), *body, *foot][:height]


def _title(state: WatchState, width: int) -> Text:
    clock = datetime.now().astimezone().strftime("%H:%M:%S")
    title = Text("headrace", style="bold").append(f"  {state.store}", "not bold")
    if state.problem:
        title.append("  unavailable", "bold red")
        title.append(f" since {state.snapshot.at.astimezone():%H:%M:%S}" if state.snapshot else "", "red")
    title.truncate(max(0, width - len(clock) - 2), overflow="ellipsis", pad=True)
    return title.append(f"  {clock}", "dim")


def _problem(state: WatchState) -> list[Text]:
    return [Text(f"! {short(state.problem, 300)}", style="bold red")] if state.problem else []


def _help(width: int) -> list[Text]:
    lines = [Text()]
    for name, text in _HELP:
        first, *rest = textwrap.wrap(text, max(20, width - 11)) or [""]
        lines.append(Text(name.ljust(11), style="bold").append(first, "not bold"))
        lines += [Text(" " * 11 + each) for each in rest]
    return lines


# --- the overview ----------------------------------------------------------------------------------------


def _overview(state: WatchState, width: int, room: int) -> list[Text]:
    """The table of queues and groups has its lines first, then the workers; warnings have a few."""
    gap = 1 if room >= SPACED else 0
    entries = _entries(state.rows, gap)
    spare = room - len(entries) - 4
    parts = [_problem(state), _warnings(state, max(1, room // 6, min(room // 3, spare)))]
    parts += [_graphs(state, width)] if room >= GRAPHS else []
    left = room - sum(len(part) + gap for part in parts if part)
    workers = _workers(state, width, max(1 if left > 5 else 0, left - max(1, len(entries)) - gap))
    table = _table(state, entries, width, left - len(workers) - (gap if workers else 0))
    lines: list[Text] = []
    for part in (each for each in (*parts, table, workers) if each):
        lines += [*(Text() for _ in range(gap if lines else 0)), *part]
    for line in lines[1:] if state.problem else ():
        line.stylize("dim")
    return lines


def _warnings(state: WatchState, most: int) -> list[Text]:
    if (seen := state.snapshot) is None:
        return []
    found = [
        *((one_line(each), each.level) for each in state.findings),
        *((each.text, Level.WARN) for each in diagnose(workloads(seen.queues, seen.topics), seen.workers)),
    ]
    shown = found if len(found) <= most else found[: most - 1 or 1]
    lines = [
        Text(f"! {short(text, 300)}", "red" if level is Level.FAIL else "yellow") for text, level in shown
    ]
    if rest := len(found) - len(shown):
        more = Text(f"and {rest:,} more", style="dim")
        lines = [*lines, Text("  ") + more] if most > 1 else [lines[0] + Text(", ") + more]
    return lines


def _graphs(state: WatchState, width: int) -> list[Text]:
    """All queues and groups together, in two lines."""
    traffic = state.snapshot.traffic if state.snapshot else []
    done, failed = total([each.done for each in traffic]), total([each.failed for each in traffic])
    part = share(sum(failed), sum(done) + sum(failed))
    graph = next((each for each in WIDTHS if each <= width - 44), 0)
    lines = []
    for name, counts, style, text in (
        ("done", done, "green", f"{sum(done):,} in the last hour"),
        ("failed", failed, "red", f"{sum(failed):,} failed ({part})"),
    ):
        rate = _rate(state.rates.per_second(counts)).append("/s")
        rate.align("right", 8)
        bars = sparkline(counts, graph, style).append("  ") if graph else Text()
        lines.append(Text.assemble((f"{name:<8}", "bold"), rate, "  ", bars, (text, "dim")))
    return lines


def _workers(state: WatchState, width: int, room: int) -> list[Text]:
    """A line for each worker while there is room, or one line for all."""
    found = sorted(state.snapshot.workers, key=lambda each: each.consumer) if state.snapshot else []
    if room <= 0:
        return []
    if not found or (room < 4 and len(found) >= room):
        return [Text(summary(found), style="" if found else "yellow")]
    lines = workers_table(found).lines(width)
    if (rest := len(lines) - room) <= 0:
        return lines
    return [*lines[: room - 1], Text(f"and {rest + 1:,} more: {summary(found)}", style="dim")]


# --- the table of queues and groups ----------------------------------------------------------------------


def _entries(rows: list[WatchRow], gap: int) -> list[WatchRow | str]:
    """The lines of the table: rows, and headings by the name of their first column."""
    queues = [row for row in rows if row.place.topic is None]
    groups = [row for row in rows if row.place.topic is not None]
    entries: list[WatchRow | str] = ["queue", *queues] if queues else []
    between = [""] * gap if queues else []
    return [*entries, *between, "topic/group", *groups] if groups else entries


def _table(state: WatchState, entries: Sequence[WatchRow | str], width: int, room: int) -> list[Text]:
    """At most `room` lines, with the selected row among them."""
    if not entries:
        return [Text("no queue and no topic has been used yet", style="dim")][: max(0, room)]
    graphs = next(graphs for least, graphs in ROW_GRAPHS if width >= least)
    listing = FittedTable(
        Column("", cut=True),
        *(Column("", right=True, spare=spare) for spare in (0, *_SPARE)),
        *(Column("") for _ in graphs),
    )
    for entry in entries:
        if isinstance(entry, WatchRow):
            listing.add(*_cells(state, entry, graphs))
        else:
            listing.add(*_headings(entry, width, len(graphs)))
    at = next((at for at, entry in enumerate(entries) if entry and entry == state.current), -1)
    rows = enumerate(listing.lines(width - len(_SELECTED))[1:])
    lines = [Text(_SELECTED if place == at else " " * len(_SELECTED)) + line for place, line in rows]
    if state.current is not None:
        lines[at].truncate(width, overflow="crop", pad=True)
        lines[at].stylize("reverse")
    return _window(lines, max(0, at), room)


def _headings(first: str, width: int, graphs: int) -> list[Text]:
    waiting = "lag" if first != "queue" else "waiting" if width >= WIDE else "wait"
    last = ["done 1h", "failed 1h"] if graphs == 2 else ["last hour"] * graphs
    names = [first, waiting, *(_NAMES if width >= WIDE else _SHORT_NAMES), *last]
    return [Text(name if first else "", style="bold") for name in names]


def _cells(state: WatchState, row: WatchRow, graphs: Sequence[int]) -> list[str | Text]:
    info, done, failed = row.info, row.traffic.done, row.traffic.failed
    if info is None:
        return [str(row.place), Text("no group", style="dim"), *[""] * (len(_NAMES) + len(graphs))]
    bars = [sparkline(total([done, failed]), width, "green", bad=failed) for width in graphs[:1]]
    if len(graphs) == 2:
        bars = [sparkline(done, graphs[0], "green"), sparkline(failed, graphs[1], "red")]
    return [
        str(row.place),
        number_text(row.waiting),
        number_text(info.running, "green"),
        number_text(info.scheduled),
        number_text(info.retrying, "yellow"),
        number_text(info.dead, "red"),
        age_text(info.oldest),
        # A paused queue does nothing, so there is room for the word.
        Text("paused", style="yellow") if info.paused else _rate(state.rates.per_second(done)),
        _rate(state.rates.per_second(failed), "red"),
        *bars,
    ]


def _window(lines: list[Text], at: int, room: int) -> list[Text]:
    """The headings, and the lines around line `at`."""
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


# --- the bottom ------------------------------------------------------------------------------------------


def _foot(state: WatchState, width: int, height: int) -> list[Text]:
    message = _message(state, width)
    if height >= ROOMY:
        return [message, _keys(state)]
    return [message if message.plain else _keys(state)]


def _message(state: WatchState, width: int) -> Text:
    if state.asking is not None:
        return Text(f"{question(state.asking)} y replays, any other key leaves them", style="bold yellow")
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
    keys = [
        ("↑↓", "select"),
        ("p", "resume" if info and info.paused else "pause"),
        ("r", f"replay {info.dead:,} dead" if info and info.dead else "replay"),
        ("?", "help"),
        ("q", "quit"),
    ]
    line = Text()
    for key, what in [("any key", "back"), ("q", "quit")] if state.showing_help else keys:
        line.append(key, "bold").append(f" {what}   ", "dim")
    line.rstrip()
    return line


# --- graphs ----------------------------------------------------------------------------------------------


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
    size = -(-len(counts) // width) or 1
    padded = [0] * (size * width - len(counts)) + list(counts)
    return [sum(padded[start : start + size]) for start in range(0, len(padded), size)]


def _rate(rate: float, style: str = "") -> Text:
    """Two digits or more; a rate above 0 is never shown as 0."""
    if rate <= 0:
        return Text("0", style="dim")
    shown = f"{rate:,.0f}" if rate >= 99.5 else f"{rate:.1f}" if rate >= 0.095 else f"{max(rate, 0.01):.2f}"
    return Text(shown, style=style)
