"""The screen as lines of text: a pure function of what the panel holds and of how much room there is."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.text import Text

from headrace.admin.diagnosis import diagnose, workloads
from headrace.admin.doctor import one_line
from headrace.cli.render import short
from headrace.core.examination import Level

from .fleet import fleet
from .graphs import graphs
from .help import help_lines
from .panel import Panel, question
from .sparkline import meter
from .table import height as table_height
from .table import table

#: Lines: from so many on there is room for two lines at the bottom, for graphs, for empty lines between.
ROOMY: Final = 12
GRAPHS: Final = 14
AIRY: Final = 20

#: One line in so many is for what needs attention.
ATTENTION: Final = 6


def frame(panel: Panel, width: int, height: int) -> list[Text]:
    """At most `height` lines; the last is always that of the keys."""
    head, foot = [_title(panel, width)], _foot(panel, width, height)
    room = max(0, height - len(head) - len(foot))
    if panel.helping:
        body = help_lines(width)
    elif panel.seen is None:
        body = [*_away(panel), Text(), Text("asking the store …", style="dim")]
    else:
        body = _body(panel, width, room)
    body = body[:room]
    return [*head, *body, *([Text()] * (room - len(body))), *foot][:height]


def _title(panel: Panel, width: int) -> Text:
    clock = datetime.now().astimezone().strftime("%H:%M:%S")
    title = Text("headrace", style="bold").append(f"  {panel.store}", "not bold")
    if panel.lost:
        title.append("  away", "bold red")
        title.append(f" since {panel.seen.at.astimezone():%H:%M:%S}" if panel.seen else "", "red")
    title.truncate(max(0, width - len(clock) - 2), overflow="ellipsis", pad=True)
    return title.append(f"  {clock}", "dim")


def _body(panel: Panel, width: int, room: int) -> list[Text]:
    air = 1 if room >= AIRY else 0
    whole = table_height(panel, air=air)
    parts = [part for part in (_away(panel), _attention(panel, _share(room, whole))) if part]
    if room >= GRAPHS:
        parts.append(graphs(panel, width))
    left = room - sum(len(part) + air for part in parts)
    workers = fleet(panel, width, max(1 if left > 5 else 0, left - whole - air))
    parts += [table(panel, width, left - len(workers) - (air if workers else 0), air=air), workers]
    lines = _spaced([part for part in parts if part], air)
    if panel.lost:
        for line in lines[1:]:
            line.stylize("dim")
    return lines


def _share(room: int, taken: int) -> int:
    """Lines for what needs attention: a few, and more where the table leaves some."""
    return max(1, room // ATTENTION, min(room // 3, room - taken - 4))


def _away(panel: Panel) -> list[Text]:
    return [Text(f"! {short(panel.lost, 300)}", style="bold red")] if panel.lost else []


def _spaced(parts: list[list[Text]], air: int) -> list[Text]:
    lines: list[Text] = []
    for part in parts:
        lines += [Text() for _ in range(air if lines else 0)] + part
    return lines


def _attention(panel: Panel, most: int) -> list[Text]:
    if panel.seen is None:
        return []
    seen = panel.seen
    problems = diagnose(workloads(seen.queues, seen.topics), seen.workers)
    found = [
        *((one_line(each), each.level) for each in panel.findings),
        *((each.text, Level.WARN) for each in problems),
    ]
    shown = found if len(found) <= most else found[: most - 1 or 1]
    lines = [
        Text(f"! {short(text, 300)}", style="red" if level is Level.FAIL else "yellow")
        for text, level in shown
    ]
    if rest := len(found) - len(shown):
        more = Text(f"and {rest:,} more", style="dim")
        lines = [*lines, Text("  ") + more] if most > 1 else [lines[0] + Text(", ") + more]
    return lines


def _foot(panel: Panel, width: int, height: int) -> list[Text]:
    said = _said(panel, width)
    if height >= ROOMY:
        return [said, _keys(panel)]
    return [said if said.plain else _keys(panel)]


def _said(panel: Panel, width: int) -> Text:
    if panel.asking is not None:
        return Text(f"{question(panel.asking)} y replays, any other key leaves them", style="bold yellow")
    if panel.busy:
        bar = meter(panel.done, min(30, width // 4), "green")
        return Text(f"{panel.busy}  ").append_text(bar)
    return Text(panel.said, style="red" if panel.is_bad else "green")


def _keys(panel: Panel) -> Text:
    if panel.asking is not None:
        return Text()  # the question says it
    if panel.helping:
        keys = [("any key", "back"), ("q", "quit")]
    else:
        row = panel.current
        resume = row is not None and row.paused
        dead = f"replay {row.dead:,} dead" if row and row.dead else "replay"
        keys = [
            ("↑↓", "select"),
            ("p", "resume" if resume else "pause"),
            ("r", dead),
            ("?", "help"),
            ("q", "quit"),
        ]
    line = Text()
    for key, what in keys:
        line.append(key, "bold").append(f" {what}   ", "dim")
    return line
