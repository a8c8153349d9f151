"""`headrace publish`: publish one event."""

from __future__ import annotations

import sys
from typing import Any, Unpack

import click

from headrace.app import App
from headrace.cli.output.render import echo, json_option, show_json
from headrace.cli.target.arguments import payload_from_json
from headrace.cli.target.completion import complete_app, complete_topic
from headrace.cli.target.option_types import span_option
from headrace.cli.target.store import located, opened
from headrace.cli.target.suggestions import unknown
from headrace.core.errors import ConfigurationError, PayloadError
from headrace.events.encoder import EventDraft
from headrace.events.event import Duplicate, Refused
from headrace.events.options import EventOptions
from headrace.events.topic import Topic


def _headers(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    headers = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not found or not name:
            raise click.BadParameter(f"{text!r} is no header: write NAME=VALUE")
        headers[name] = value
    return headers or None


@click.command()
@click.argument("target", metavar="MODULE:APP", shell_complete=complete_app)
@click.argument("topic", shell_complete=complete_topic)
@click.argument("payload", metavar="JSON")
@click.option("--key", metavar="KEY", help="Events with the same key keep their order.")
@click.option(
    "--header", "headers", multiple=True, callback=_headers, metavar="NAME=VALUE", help="May be repeated."
)
@click.option("--kind", metavar="KIND", help="What sort of event; default: the name of its type.")
@click.option("--source", metavar="SOURCE", help="Where it comes from.")
@click.option(
    "--delay", type=span_option, metavar="SPAN", help="Deliver it after 90 (seconds), 15m, 2h or 3d."
)
@click.option("--expires", type=span_option, metavar="SPAN", help="Deliver it no later than after this.")
@click.option(
    "--idempotency-key", metavar="KEY", help="Do nothing when an event with this key was stored recently."
)
@click.option("--correlation-id", metavar="ID", help="An id of the request or process that it belongs to.")
@json_option
def publish(target: str, topic: str, payload: str, as_json: bool, **options: Unpack[EventOptions]) -> None:
    """Store an event of TOPIC, and print its id.

    JSON is the payload; - reads it from standard input. It is converted to the type of the topic. Nothing is
    sent when it does not fit.

    \b
    Examples:
      headrace publish shop:app orders '{"order_id": 7}' --key customer-3
      headrace publish shop:app orders '{"order_id": 7}' --delay 10m
      headrace publish shop:app orders - --idempotency-key order-7 < order.json
    """
    with opened(located(target)) as app:
        found = find_topic(app, topic, target)
        event = payload_from_json(found, sys.stdin.read() if payload == "-" else payload)
        id, duplicate = _stored(app, found, found.message(event, **options))
    if as_json:
        show_json({"id": id, "topic": found.name, "duplicate": duplicate})
        return
    echo(id)
    if duplicate:
        echo("This event was already there; nothing was added.", err=True)


def find_topic(app: App, name: str, target: str) -> Topic[Any]:
    """The topic that the app has declared under this name."""
    declared = app.declared_topics
    if name in declared:
        return declared[name]
    if not declared:
        raise ConfigurationError(f"{target} has declared no topic; app.topic(...) does so")
    raise ConfigurationError(unknown("topic", name, declared, owner=target))


def _stored(app: App, topic: Topic[Any], event: EventDraft[Any]) -> tuple[str, bool]:
    [outcome] = app.sync.publish_many(topic, [event])
    if isinstance(outcome, Refused):
        if isinstance(outcome.error, PayloadError):
            raise ConfigurationError(str(outcome.error)) from outcome.error
        raise outcome.error
    return outcome.id, isinstance(outcome, Duplicate)
