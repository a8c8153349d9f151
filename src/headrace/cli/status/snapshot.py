"""The state of a store at one time: read once, shown as tables or as a document."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from headrace.admin import GroupInfo, OutboxInfo, QueueInfo, SealInfo, TopicInfo, Traffic
from headrace.app import App
from headrace.cli.commands.topics import topics_table
from headrace.cli.commands.workers import summary, worker_document
from headrace.cli.output.render import number_text
from headrace.cli.output.table import Column, FittedTable
from headrace.core.records.record import WorkerInfo
from headrace.core.values.times import age_text, span
from headrace.engine.app_loop.retrying import without_retries

#: The higher, the sooner a column is left out.
_NUMBERS = {"queued": 0, "running": 0, "scheduled": 2, "retrying": 1, "dead": 0, "oldest": 3}


class Snapshot(msgspec.Struct, frozen=True):
    """`traffic` is for graphs; `headrace status` alone does not read it."""

    store: str
    at: datetime
    queues: list[QueueInfo]
    topics: list[TopicInfo]
    workers: list[WorkerInfo]
    traffic: list[Traffic] = []
    outboxes: list[OutboxInfo] = []
    seal: SealInfo | None = None


def snapshot(app: App) -> Snapshot:
    """Read the store once."""
    admin = app.sync.admin
    queues, topics, workers = admin.queues(), admin.topics(), admin.workers()
    outboxes, seal = admin.outboxes(), admin.seal()
    # The name of the store last: its version is known when it has answered.
    return Snapshot(app.description, datetime.now(UTC), queues, topics, workers, [], outboxes, seal)


async def look(app: App) -> Snapshot:
    """Read the store for the watch screen, with the traffic of the last hour. A store that is not available
    raises at once."""
    admin = app.admin
    with without_retries():
        queues, topics = await admin.queues(), await admin.topics()
        workers, traffic = await admin.workers(), await admin.traffic()
        outboxes, seal = await admin.outboxes(), await admin.seal()
        return Snapshot(app.description, datetime.now(UTC), queues, topics, workers, traffic, outboxes, seal)


def snapshot_view(seen: Snapshot) -> RenderableType:
    """Tables for a person."""
    parts: list[RenderableType] = [Text(seen.store, style="bold")]
    if seen.seal is not None:
        parts.append(Text(f"{seen.seal.text}: {seen.seal.remedy}", style="yellow"))
    parts.append("")
    if seen.queues or not seen.topics:
        parts.append(_table(seen.queues) if seen.queues else "no queue has been used yet")
    if seen.topics:
        parts += ["", topics_table(seen.topics)] if seen.queues else [topics_table(seen.topics)]
    if seen.outboxes:
        parts += ["", _outboxes_table(seen.outboxes)]
    style = "" if seen.workers else "yellow"
    return Group(*parts, "", Text(summary(seen.workers), style=style))


def snapshot_document(seen: Snapshot) -> dict[str, object]:
    """A document for a program."""
    return {
        "store": seen.store,
        "seal": msgspec.to_builtins(seen.seal),
        "at": seen.at,
        "queues": [msgspec.to_builtins(queue) for queue in seen.queues],
        "topics": [msgspec.to_builtins(topic) for topic in seen.topics],
        "workers": [worker_document(worker) for worker in seen.workers],
        "outboxes": [msgspec.to_builtins(outbox) for outbox in seen.outboxes],
    }


def state_cells(info: QueueInfo | GroupInfo) -> list[str | Text]:
    """What a queue or a group holds besides waiting jobs, and since when the first of those waits."""
    return [
        number_text(info.running, "green"),
        number_text(info.scheduled),
        number_text(info.retrying, "yellow"),
        number_text(info.dead, "red"),
        age_text(info.oldest),
    ]


def _table(queues: list[QueueInfo]) -> FittedTable:
    paused = (Column(""),) if any(queue.paused for queue in queues) else ()
    parts = (Column("parts", right=True, spare=4),) if any(queue.partitions > 1 for queue in queues) else ()
    numbers = (Column(name, right=True, spare=spare) for name, spare in _NUMBERS.items())
    listing = FittedTable(Column("queue", keeps="end"), *parts, *numbers, *paused)
    for queue in queues:
        listing.add(
            queue.name,
            *(number_text(queue.partitions) for _ in parts),
            number_text(queue.queued),
            *state_cells(queue),
            *(Text("paused" if queue.paused else "", style="yellow") for _ in paused),
        )
    return listing


def _outboxes_table(outboxes: list[OutboxInfo]) -> FittedTable:
    listing = FittedTable(
        Column("outbox", keeps="end"),
        Column("waiting", right=True),
        Column("lag", right=True),
        Column("relays", right=True),
    )
    for outbox in outboxes:
        lag = Text(outbox.error, style="red") if outbox.error else span(outbox.lag) if outbox.waiting else ""
        relays = Text(f"{outbox.relays}", style="" if outbox.relays else "yellow")
        listing.add(outbox.name, number_text(outbox.waiting), lag, relays)
    return listing
