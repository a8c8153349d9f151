"""`headrace topics`: list topics with their groups; reset, pause, resume or remove a group."""

from __future__ import annotations

from datetime import datetime

import click
from rich.text import Text

from headrace.admin import GroupInfo, TopicInfo
from headrace.app import App
from headrace.cli.output.confirm import confirm, yes_option
from headrace.cli.output.render import (
    clock_time,
    echo,
    json_list_option,
    number_text,
    show,
    show_json,
)
from headrace.cli.output.table import Column, FittedTable
from headrace.cli.target.listing_group import ListingGroup
from headrace.cli.target.option_types import start_option
from headrace.cli.target.place import remark
from headrace.cli.target.store import on_store, on_store_with
from headrace.cli.target.suggestions import unknown
from headrace.core.errors import ConfigurationError
from headrace.core.values.times import START_FORMS, age_text, ago, seconds_since
from headrace.core.values.whole_numbers import counted

#: Seconds without a heartbeat of a member after which the column is yellow.
SILENT = 60.0


@click.group(cls=ListingGroup)
def topics() -> None:
    """List topics and their groups; reset, pause or remove a group.

    \b
    Examples:
      headrace topics shop:app
      headrace topics reset shop:app orders billing --to 2h
      headrace topics remove shop:app orders billing
    """


@topics.command("list")
@json_list_option
@on_store
def list_topics(app: App, as_json: bool) -> None:
    """List topics by name, each with its groups.

    The lag of a group is what no member of it has begun to handle, and the oldest is since when the first of
    these waits. Events wait in the topic for as long as its retention says.

    \b
    Examples:
      headrace topics list shop:app
      headrace topics list --url sqlite:///jobs.db --json
    """
    found = app.sync.admin.topics()
    if as_json:
        show_json(found)
    elif found:
        show(topics_table(found))
    else:
        echo("there are no topics yet; the first event, or a worker with a subscription, makes one")


@topics.command()
@click.option("--to", type=start_option, required=True, metavar="START", help=f"Where to: {START_FORMS}.")
@yes_option
@on_store_with("TOPIC GROUP")
def reset(app: App, names: tuple[str, str], to: str | datetime, yes: bool) -> None:
    """Set the position of a group in its topic, after a question.

    When it goes back, it handles events again that it has handled before. When it goes ahead, it never sees
    the events between. Events that it has drawn already stay with it.

    \b
    Examples:
      headrace topics reset shop:app orders billing --to beginning
      headrace topics reset shop:app orders billing --to 2h --yes
      headrace topics reset shop:app orders billing --to new
      headrace topics reset shop:app orders billing --to 2026-03-01T10:00:00Z
    """
    topic, group = names
    known_group(app, topic, group)
    confirm(f"Have group {group} of {topic} read {_from(to)}", yes=yes)
    app.sync.admin.reset_group(topic, group, to=to)
    echo(f"{group} of {topic} reads {_from(to)}: {counted(_ahead(app, topic, group), 'event')} ahead")


@topics.command()
@yes_option
@on_store_with("TOPIC GROUP")
def remove(app: App, names: tuple[str, str], yes: bool) -> None:
    """Remove a group with all events that it holds, after a question.

    Its dead letters are removed too. The topic's events stay. A worker that starts with a subscription of
    this group makes it again.

    \b
    Examples:
      headrace topics remove shop:app orders billing
      headrace topics remove shop:app orders billing --yes
    """
    topic, group = names
    confirm(_removal(topic, known_group(app, topic, group)), yes=yes)
    served = any(f"{topic}/{group}" in worker.groups for worker in app.sync.admin.workers())
    if not app.sync.admin.remove_group(topic, group):
        raise click.ClickException(f"group {group} of {topic} was gone already")
    echo(f"{group} of {topic} removed")
    if served:
        remark("workers that still serve it get no more events; when they start again, they make it again")


@topics.command()
@on_store_with("TOPIC GROUP")
def pause(app: App, names: tuple[str, str]) -> None:
    """Hand no more events to a group.

    This holds for every worker. Handlers that run go on, other groups are not changed, and events can still
    be published.

    \b
    Examples:
      headrace topics pause shop:app orders billing
    """
    topic, group = names
    known_group(app, topic, group)
    app.sync.admin.pause_group(topic, group)
    echo(f"{group} of {topic} is paused; headrace topics resume resumes it")


@topics.command()
@on_store_with("TOPIC GROUP")
def resume(app: App, names: tuple[str, str]) -> None:
    """Resume a paused group.

    \b
    Examples:
      headrace topics resume shop:app orders billing
    """
    topic, group = names
    known_group(app, topic, group)
    app.sync.admin.resume_group(topic, group)
    echo(f"{group} of {topic} is resumed")


def known_group(app: App, topic: str, group: str) -> GroupInfo:
    """What the store knows of a group; wrong usage when it is nothing."""
    found = {each.name: each for each in app.sync.admin.topics()}
    if topic not in found:
        raise ConfigurationError(unknown("topic", topic, found))
    groups = {each.group: each for each in found[topic].groups}
    if group not in groups:
        raise ConfigurationError(unknown("group", group, groups, owner=topic))
    return groups[group]


def _ahead(app: App, topic: str, group: str) -> int:
    # Events that the group holds are in the log too, and are not handled twice.
    length = sum(each.length for each in app.sync.admin.topics() if each.name == topic)
    return min(length, known_group(app, topic, group).lag)


def topics_table(found: list[TopicInfo]) -> FittedTable:
    """A row for each group; what belongs to the topic stands in its first."""
    paused = any(group.paused for topic in found for group in topic.groups)
    later = any(topic.scheduled for topic in found)
    split = any(topic.partitions > 1 for topic in found)
    columns = [
        Column("topic", keeps="end"),
        *([Column("parts", right=True, spare=6)] if split else ()),
        Column("events", right=True),
        *([Column("later", right=True, spare=3)] if later else ()),
        Column("last", right=True, spare=5),
        Column("group", keeps="end"),
        Column("lag", right=True),
        Column("running", right=True),
        Column("retrying", right=True, spare=1),
        Column("dead", right=True),
        Column("oldest", right=True, spare=2),
        Column("member seen", right=True, spare=4),
        *([Column("")] if paused else ()),
    ]
    listing = FittedTable(*columns)
    for topic in found:
        first = _topic_cells(topic, later=later, split=split)
        rows = [_group_cells(group, paused=paused) for group in topic.groups]
        none: list[str | Text] = [Text("none", style="dim")]
        for cells in rows or [none + [""] * (len(columns) - len(first) - 1)]:
            listing.add(*first, *cells)
            first = [""] * len(first)
    return listing


def _topic_cells(topic: TopicInfo, *, later: bool, split: bool) -> list[str | Text]:
    parts = [number_text(topic.partitions)] if split else []
    scheduled = [number_text(topic.scheduled)] if later else []
    return [topic.name, *parts, number_text(topic.length), *scheduled, ago(topic.last)]


def _group_cells(group: GroupInfo, *, paused: bool) -> list[str | Text]:
    seen = seconds_since(group.seen)
    return [
        group.group,
        number_text(group.lag),
        number_text(group.running, "green"),
        number_text(group.retrying + group.scheduled, "yellow"),
        number_text(group.dead, "red"),
        age_text(group.oldest),
        Text("never" if seen is None else ago(group.seen), style="yellow" if (seen or 0) > SILENT else ""),
        *([Text("paused" if group.paused else "", style="yellow")] if paused else ()),
    ]


def _from(to: str | datetime) -> str:
    if isinstance(to, datetime):
        return f"from {clock_time(to)}"
    words = {"new": "new events only", "beginning": "from the beginning"}
    return words.get(to, f"from event {to}")


def _removal(topic: str, group: GroupInfo) -> str:
    held = group.queued + group.running + group.retrying + group.scheduled
    parts = [counted(held, "event")] if held else []
    parts += [counted(group.dead, "dead letter")] if group.dead else []
    return f"Remove group {group.group} of {topic}{', with ' if parts else ''}{' and '.join(parts)}"
