"""The workers: load, since when, last poll, and what each serves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from headrace.cli.span import age, spoken
from headrace.cli.table import Column, Listing
from headrace.cli.workers import summary
from headrace.core.record import WorkerInfo, moment

from .panel import Panel
from .sparkline import meter

#: Characters of a bar that shows the load.
METER: Final = 10

_HEADINGS: Final = 1


def fleet(panel: Panel, width: int, room: int) -> list[Text]:
    """A line each while there is room, else all in one line, or none."""
    found = sorted(panel.seen.workers, key=lambda worker: worker.consumer) if panel.seen else []
    if room <= 0:
        return []
    if not found or (room < 3 + _HEADINGS and len(found) + _HEADINGS > room):
        return [Text(summary(found), style="" if found else "yellow")]
    lines = _listing(found).lines(width)
    if len(lines) <= room:
        return lines
    rest = len(lines) - room + 1
    return [*lines[: room - 1], Text(f"and {rest:,} more: {summary(found)}", style="dim")]


def _listing(found: list[WorkerInfo]) -> Listing:
    now = datetime.now(UTC)
    listing = Listing(
        Column("worker", cut=True),
        Column("load", spare=2),
        Column("slots", right=True),
        Column("up", right=True, spare=1),
        Column("last poll", right=True),
        Column("serves", cut=True, spare=3),
    )
    for worker in found:
        load = len(worker.running) / worker.concurrency
        up, polled = age(moment(worker.started_us)), moment(worker.polled_us)
        listing.add(
            worker.consumer,
            meter(load, METER, "green" if load < 1 else "yellow"),
            f"{len(worker.running)}/{worker.concurrency}",
            "" if up is None else spoken(up),
            Text(_since(polled), style="yellow" if polled is None or worker.is_quiet(now) else ""),
            ", ".join((*worker.queues, *worker.groups)),
        )
    return listing


def _since(polled: datetime | None) -> str:
    """Without fractions of a second, which would only flicker."""
    seconds = age(polled)
    if seconds is None:
        return "never"
    return "now" if seconds < 1 else f"{spoken(seconds) if seconds >= 10 else f'{seconds:.0f} s'} ago"
