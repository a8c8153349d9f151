"""Stores as they may stand, made by hand."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

from rich.console import RenderableType

from headrace.admin import GroupInfo, QueueInfo, TopicInfo, Traffic
from headrace.cli.output.render import SafeConsole
from headrace.cli.status.snapshot import Snapshot
from headrace.cli.watch.state import WatchState
from headrace.core.records.record import RunningJob, WorkerInfo


def us(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def worker(name: str = "vm:1:a", *, running: int = 3, polled_ago: float = 2) -> WorkerInfo:
    now = datetime.now(UTC)
    return WorkerInfo(
        consumer=name,
        host="vm",
        pid=1,
        started_us=us(now - timedelta(minutes=5)),
        queues=("default", "mails"),
        concurrency=10,
        polled_us=us(now - timedelta(seconds=polled_ago)),
        running=tuple(RunningJob(f"id-{number}", "add", us(now)) for number in range(running)),
        groups=("orders/billing",),
    )


def queue_names(count: int) -> list[QueueInfo]:
    return [QueueInfo(f"queue-{number:02}") for number in range(count)]


def snapshot(
    queues: list[QueueInfo] | None = None,
    topics: list[TopicInfo] | None = None,
    workers: list[WorkerInfo] | None = None,
) -> Snapshot:
    """A shop in use, or only what is given of it."""
    now = datetime.now(UTC)
    return Snapshot(
        "SQLite file jobs.db",
        now,
        queues
        if queues is not None
        else [
            QueueInfo("default", queued=120, running=10, retrying=1, oldest=now - timedelta(seconds=3)),
            QueueInfo("mails", scheduled=14, dead=2, paused=True),
        ],
        topics
        if topics is not None
        else [
            TopicInfo("lonely", length=3),
            TopicInfo("orders", length=500, groups=(GroupInfo("billing", lag=318, running=4, dead=1),)),
        ],
        workers if workers is not None else [worker()],
        [
            Traffic("queue", "default", (0,) * 58 + (600, 300), (0,) * 58 + (6, 0), (0,) * 60),
            Traffic("group", "orders/billing", (1,) * 60, (0,) * 60, (0,) * 60),
        ],
    )


def state_of(seen: Snapshot | None = None) -> WatchState:
    state = WatchState("SQLite file jobs.db")
    state.update(seen or snapshot(), [])
    return state


def drawn(view: RenderableType, width: int, height: int) -> list[str]:
    """The lines of a terminal of this size, without the spaces at their ends."""
    console = SafeConsole(file=io.StringIO(), width=width, height=height, markup=False, highlight=False)
    lines = console.render_lines(view, console.options.update_dimensions(width, height))
    return ["".join(segment.text for segment in line).rstrip() for line in lines]
