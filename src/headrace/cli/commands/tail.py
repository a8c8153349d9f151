"""`headrace tail`: print the events of a topic as they come."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

import click
import msgspec
from rich.text import Text

from headrace.admin import EventInfo
from headrace.app import App
from headrace.cli.output.render import (
    clock_time,
    compact_json,
    console,
    echo,
    is_terminal,
    one_line,
    short,
)
from headrace.cli.target.option_types import start_option
from headrace.cli.target.place import remark
from headrace.cli.target.store import on_store_with
from headrace.cli.target.suggestions import unknown
from headrace.core.errors import ConfigurationError
from headrace.core.values.times import START_FORMS

from .topics import known_group


@click.command()
@click.option("--since", type=start_option, metavar="START", help=f"Where from: {START_FORMS}; default: new.")
@click.option("--group", metavar="GROUP", help="Begin with what this group has not begun to handle.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after so many.")
@click.option("--no-follow", is_flag=True, help="End with what is there.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document for each event, one a line.")
@on_store_with("TOPIC")
def tail(
    app: App,
    names: tuple[str],
    since: str | datetime | None,
    group: str | None,
    limit: int | None,
    no_follow: bool,
    as_json: bool,
) -> None:
    """Print the events of a topic as they come, until Ctrl-C.

    Shows time, id, kind, key and payload; --json has the other fields. Groups are not affected.

    \b
    Examples:
      headrace tail shop:app orders
      headrace tail shop:app orders --since 2h
      headrace tail shop:app orders --group billing
      headrace tail shop:app orders --since beginning --no-follow --json
    """
    if since is not None and group is not None:
        raise click.UsageError("Give --since or --group, not both: the group says where to begin.")
    [topic] = names
    _check(app, topic, group, follow=not no_follow)
    events = app.sync.admin.tail(topic, since=since, group=group, follow=not no_follow)
    try:
        _print(islice(events, limit), as_json=as_json)
    except KeyboardInterrupt:
        return


def _check(app: App, topic: str, group: str | None, *, follow: bool) -> None:
    if group is not None:
        known_group(app, topic, group)
        return
    known = [each.name for each in app.sync.admin.topics()]
    if topic in known:
        return
    if not follow:
        raise ConfigurationError(unknown("topic", topic, known))
    if topic not in app.declared_topics:
        remark(unknown("topic", topic, known))
        remark("waiting for its first event")


def _print(events: Iterator[EventInfo], *, as_json: bool) -> None:
    if is_terminal("stderr") and not as_json:
        echo("Ctrl-C ends it", err=True)
    out = console()
    for event in events:
        if as_json:
            echo(compact_json(msgspec.structs.asdict(event)))
        else:
            out.print(_line(event), soft_wrap=True)


def _line(event: EventInfo) -> Text:
    """Fields are two spaces apart. A dash stands for an empty field, so that columns can be counted."""
    written = event.at or event.occurred_at
    return Text("  ").join(
        (
            Text(clock_time(written) if written else "-", style="dim"),
            Text(one_line(event.id)),
            Text(short(event.kind) or "-", style="bold"),
            Text(short(event.key or "-")),
            Text(short(event.problem), style="red") if event.problem else Text(compact_json(event.payload)),
        )
    )
