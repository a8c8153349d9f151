"""The options `--queue`, `--topic` and `--group`, and the queues and groups that they mean."""

from __future__ import annotations

from functools import wraps

import click

from headrace.admin.place import Place
from headrace.app import App
from headrace.cli.output.render import echo
from headrace.sync import SyncAdmin

from .completion import complete_queue, complete_topic
from .store import Command
from .suggestions import unknown


def place_options(command: Command) -> Command:
    """Give a command `--queue`, `--topic` and `--group`; it is called with the place."""

    @click.option("--queue", metavar="QUEUE", help="Only this queue.", shell_complete=complete_queue)
    @click.option(
        "--topic", metavar="TOPIC", help="Only events of this topic.", shell_complete=complete_topic
    )
    @click.option("--group", metavar="GROUP", help="With --topic: only those of this group.")
    @wraps(command)
    def run(queue: str | None, topic: str | None, group: str | None, **options: object) -> None:
        if group is not None and topic is None:
            raise click.UsageError("--group needs --topic beside it.")
        if queue is not None and topic is not None:
            raise click.UsageError("Give --queue or --topic, not both.")
        command(place=Place(queue, topic, group), **options)

    return run


def known_groups(admin: SyncAdmin, place: Place) -> list[Place]:
    """The groups that the options name. For a name that the store does not know, a note is printed."""
    topics = {topic.name: [each.group for each in topic.groups] for topic in admin.topics()}
    if place.topic is None:
        return [Place(None, topic, group) for topic, groups in topics.items() for group in groups]
    if place.topic not in topics:
        remark(unknown("topic", place.topic, topics))
    groups = topics.get(place.topic, [])
    if place.group is None:
        return [Place(None, place.topic, group) for group in groups]
    if place.topic in topics and place.group not in groups:
        remark(unknown("group", place.group, groups, owner=place.topic))
    return [place]


def known_queues(admin: SyncAdmin, queue: str | None) -> list[Place]:
    """The queues that the option names. For a name that the store does not know, a note is printed."""
    known = [each.name for each in admin.queues()]
    if queue is None:
        return [Place(name) for name in known]
    if queue not in known:
        remark(unknown("queue", queue, known))
    return [Place(queue)]


def check_task(app: App, task: str | None) -> None:
    """A note is printed for a task that the app does not have. The store may still hold jobs of it."""
    if task is not None and app.tasks and task not in app.tasks:
        remark(unknown("task", task, app.tasks, owner="the app"))


def remark(text: str) -> None:
    echo(f"note: {text}", err=True)
