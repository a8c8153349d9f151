from __future__ import annotations

from typing import Any

import pytest

from headrace import App, EventInfo
from tests.unit.cli.conftest import Shell


def events(app: App, topic: str = "orders") -> list[EventInfo]:
    return [*app.sync.admin.tail(topic, since="beginning", follow=False)]


def test_it_prints_the_id_of_the_stored_event(app: App, headrace: Shell) -> None:
    result = headrace("publish", "shop:app", "orders", '{"number": 7, "at": "2026-03-01T10:00:00Z"}')
    assert (result.exit_code, result.stderr) == (0, "")
    [event] = events(app)
    assert (event.id, event.kind) == (result.stdout.strip(), "Placed")
    assert event.payload["number"] == 7


def test_options_reach_the_event(app: App, headrace: Shell) -> None:
    headrace(
        *("publish", "shop:app", "orders", '{"number": 7}', "--key", "customer-3", "--kind", "Placed2"),
        *("--header", "source=web", "--header", "path=/a=b", "--source", "till", "--correlation-id", "c"),
        *("--expires", "2h"),
    )
    [event] = events(app)
    assert (event.key, event.kind, event.source) == ("customer-3", "Placed2", "till")
    assert (event.headers, event.correlation_id) == ({"source": "web", "path": "/a=b"}, "c")
    assert event.expires_at is not None


def test_a_delay_is_stored(app: App, headrace: Shell) -> None:
    assert headrace("publish", "shop:app", "orders", '{"number": 7}', "--delay", "10m").exit_code == 0
    [topic] = app.sync.admin.topics()
    assert (topic.length, topic.scheduled) == (0, 1)


def test_an_idempotency_key_answers_with_the_event_that_stands_there(app: App, headrace: Shell) -> None:
    words = ("publish", "shop:app", "orders", '{"number": 7}', "--idempotency-key", "k")
    first, second = headrace(*words), headrace(*words)
    assert first.stdout == second.stdout
    assert (second.exit_code, second.stderr) == (0, "This event was already there; nothing was added.\n")
    document: Any = headrace.json(*words)
    assert document == {"id": first.stdout.strip(), "topic": "orders", "duplicate": True}
    assert len(events(app)) == 1


def test_json_may_come_from_standard_input(app: App, headrace: Shell) -> None:
    result = headrace("publish", "shop:app", "orders", "-", typed='{"number": 8}\n')
    assert result.exit_code == 0, result.output
    assert [event.payload["number"] for event in events(app)] == [8]


def test_models_and_plain_data_can_be_published(app: App, headrace: Shell) -> None:
    assert headrace("publish", "shop:app", "returns", '{"name": "Ada"}').exit_code == 0
    assert headrace("publish", "shop:app", "anything", '[1, "two"]').exit_code == 0
    assert events(app, "returns")[0].payload["name"] == "Ada"
    assert events(app, "anything")[0].payload == [1, "two"]


@pytest.mark.parametrize(
    ("topic", "payload", "words"),
    [
        ("orders", '{"number": "x"}', "does not fit Placed, the type of orders: Expected `int`, got `str`"),
        ("orders", "{}", "missing required field `number`"),
        ("orders", '{"number": ', "the event is no JSON"),
        ("orders", '{"number": 1, "card": 4}', "the event does not fit Placed"),
        ("returns", '{"nam": "Ada"}', "the event does not fit Customer"),
        ("order", '{"number": 1}', "shop:app knows no topic 'order'; did you mean orders?"),
        ("zebra", '{"number": 1}', "it has anything, orders, returns"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_sent(
    app: App, headrace: Shell, topic: str, payload: str, words: str
) -> None:
    assert words in headrace.refused("publish", "shop:app", topic, payload)
    assert app.sync.admin.topics() == []


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--header", "source", "is no header: write NAME=VALUE"),
        ("--delay", "soon", "is no span of time"),
        ("--key", "", "key must be a text of 1 to 500 bytes"),
    ],
)
def test_wrong_options_are_refused(app: App, headrace: Shell, option: str, value: str, words: str) -> None:
    assert words in headrace.refused("publish", "shop:app", "orders", '{"number": 1}', option, value)
    assert app.sync.admin.topics() == []


def test_an_event_that_is_too_large_is_wrong_usage(app: App, headrace: Shell) -> None:
    words = headrace.refused("publish", "shop:app", "anything", f'"{"x" * 1_100_000}"')
    assert "more than the 1,048,576 allowed" in words
