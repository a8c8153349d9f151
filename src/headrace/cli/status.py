"""`headrace status`: the queues, topics and workers of a store at a glance, once or live."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from headrace.admin import QueueInfo, TopicInfo
from headrace.app import App
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.record import WorkerInfo

from .render import is_terminal, number_text, show, show_json
from .span import age, spoken
from .store import on_store
from .table import Column, Listing
from .topics import topics_table
from .watch import watch as watch_live
from .workers import summary, worker_document

_NUMBERS = ("queued", "running", "scheduled", "retrying", "dead", "oldest")


class Snapshot(msgspec.Struct, frozen=True):
    """A store at one moment."""

    store: str
    at: datetime
    queues: list[QueueInfo]
    topics: list[TopicInfo]
    workers: list[WorkerInfo]


@click.command()
@click.option("--watch", is_flag=True, help="Keep it up to date on the screen until q or Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
@on_store
def status(app: App, watch: bool, as_json: bool) -> None:
    """Show queues, topics and workers at a glance.

    For each queue its jobs by state, and for how long the oldest of those queued has waited; for each topic
    its groups, and how far each of them is behind.

    \b
    Examples:
      headrace status shop:app
      headrace status shop:app --watch
      headrace status --url sqlite:///jobs.db --json
    """
    if watch:
        _check_watch(as_json)
        watch_live(lambda: _screen(app))
    elif as_json:
        show_json(_document(snapshot(app)))
    else:
        show(view(snapshot(app)))


def snapshot(app: App) -> Snapshot:
    """How things stand now."""
    admin = app.sync.admin
    return Snapshot(app.store, datetime.now(UTC), admin.queues(), admin.topics(), admin.workers())


def view(seen: Snapshot) -> RenderableType:
    """A snapshot for a person."""
    parts: list[RenderableType] = [Text(seen.store, style="bold"), ""]
    if seen.queues or not seen.topics:
        parts.append(_table(seen.queues) if seen.queues else "no queue has been used yet")
    if seen.topics:
        parts += ["", topics_table(seen.topics)] if seen.queues else [topics_table(seen.topics)]
    style = "" if seen.workers else "yellow"
    return Group(*parts, "", Text(summary(seen.workers), style=style))


def _check_watch(as_json: bool) -> None:
    if as_json:
        raise ConfigurationError("--watch is for a person, --json for a program: give one of them")
    if not is_terminal("stdout"):
        raise ConfigurationError(
            "--watch needs a terminal; run status again and again, or with --json, instead"
        )


def _screen(app: App) -> RenderableType:
    clock = datetime.now().astimezone().strftime("%H:%M:%S")
    footer = Text(f"\n{clock}   q quits", style="dim")
    try:
        return Group(view(snapshot(app)), footer)
    except BackendUnavailable as error:
        return Group(Text(app.store, style="bold"), "", Text(str(error), style="red"), footer)


def _document(seen: Snapshot) -> dict[str, Any]:
    return {
        "store": seen.store,
        "at": seen.at,
        "queues": [msgspec.to_builtins(queue) for queue in seen.queues],
        "topics": [msgspec.to_builtins(topic) for topic in seen.topics],
        "workers": [worker_document(worker) for worker in seen.workers],
    }


def _table(queues: list[QueueInfo]) -> Listing:
    paused = (Column(""),) if any(queue.paused for queue in queues) else ()
    listing = Listing(Column("queue", cut=True), *(Column(name, right=True) for name in _NUMBERS), *paused)
    for queue in queues:
        waited = age(queue.oldest)
        listing.add(
            queue.name,
            number_text(queue.queued),
            number_text(queue.running, "green"),
            number_text(queue.scheduled),
            number_text(queue.retrying, "yellow"),
            number_text(queue.dead, "red"),
            "" if waited is None else spoken(waited),
            *(Text("paused" if queue.paused else "", style="yellow") for _ in paused),
        )
    return listing
