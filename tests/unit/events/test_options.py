"""What topics and subscriptions are declared with is checked where it is written."""

from __future__ import annotations

import inspect
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
import pytest

from headrace import App, ConfigurationError, Delivery, Depends, RetryPolicy, Topic


class OrderPlaced(msgspec.Struct):
    order_id: int


@pytest.fixture
def app() -> App:
    return App("memory://")


async def handle(order: OrderPlaced) -> None: ...


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs group= or fan_out=True"),
        ({"group": "a", "fan_out": True}, "takes group= or fan_out=True"),
        ({"fan_out": True, "ack": "manual"}, "fan_out=True with ack='manual'"),
        ({"fan_out": True, "ack": "receipt"}, "fan_out=True with ack='receipt'"),
        ({"fan_out": True, "ordered": True}, "fan_out=True with ordered=True"),
        ({"group": "a", "batch": 5, "ack": "manual"}, "batch= with ack='manual'"),
        ({"group": "a", "ordered": True, "ack": "receipt"}, "ordered=True with ack='receipt'"),
        ({"group": "a", "ack": "receipt", "retry": RetryPolicy.fixed(1, 1)}, "ack='receipt' with retry="),
        ({"group": "a", "batch": 5, "max_in_flight": 4}, "max_in_flight=4 with batch=5"),
        ({"group": "a", "ack": "never"}, "ack must be"),
        ({"group": "a", "batch": 0}, "batch must be"),
        ({"group": "a", "max_in_flight": 0}, "max_in_flight must be"),
        ({"group": "a", "start": "begining"}, "'begining' is not 'new'"),
        ({"group": "a", "start": datetime(2030, 1, 1)}, "with a time zone"),
        ({"group": "a", "start": 5}, "start must be"),
        ({"group": "a", "ordered": "yes"}, "ordered must be True or False"),
        ({"group": "a", "retry": 3}, "retry"),
        ({"group": "a/b"}, "group"),
        ({"group": "{a}"}, "group"),
        ({"group": "#1"}, "group"),
        ({"group": ""}, "group"),
    ],
)
def test_an_impossible_subscription_says_what_is_impossible(
    app: App, options: dict[str, Any], text: str
) -> None:
    orders = app.topic("orders", OrderPlaced)
    with pytest.raises(ConfigurationError, match=text.replace("(", r"\(")):
        orders.subscribe(**options)


@pytest.mark.parametrize("name", ["a/b", "{a}", "", "a b", "x" * 201, 7, "orders.*"])
def test_names_of_topics_are_checked(app: App, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="topic"):
        app.topic(name, OrderPlaced)


@pytest.mark.parametrize("pattern", ["orders.a*", "a/*", "{*}", "", 7, "**"])
def test_patterns_are_checked(app: App, pattern: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a pattern of topics"):
        app.topics(pattern, OrderPlaced)


@pytest.mark.parametrize(
    "options",
    [
        {"retention": 0},
        {"retention": "7d"},
        {"max_length": 0},
        {"retention_strict": 1},
        {"idempotency_window": 0},
        {"schema_version": 0},
    ],
)
def test_options_of_topics_are_checked(app: App, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        app.topic("orders", OrderPlaced, **options)


def test_a_topic_is_declared_alike_or_not_at_all(app: App) -> None:
    orders = app.topic("orders", OrderPlaced, retention=60)
    assert app.topic("orders", OrderPlaced, retention=60) is orders
    for wrong in ({"retention": 61}, {"retention": 60, "schema_version": 2}):
        with pytest.raises(ConfigurationError, match="declared twice, with different options"):
            app.topic("orders", OrderPlaced, **wrong)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="declared twice, with different options"):
        app.topic("orders", int, retention=60)


def test_an_events_id_is_no_start_for_a_pattern(app: App) -> None:
    with pytest.raises(ConfigurationError, match="belongs to one topic"):
        app.topics("orders.*", OrderPlaced).subscribe(group="a", start="0" * 26)(handle)


def test_handlers_take_one_event(app: App) -> None:
    orders = app.topic("orders", OrderPlaced)

    async def nothing() -> None: ...
    async def two(order: OrderPlaced, other: int) -> None: ...
    async def keyword(*, order: OrderPlaced) -> None: ...

    for wrong in (nothing, two, keyword):
        with pytest.raises(ConfigurationError, match="must take one argument"):
            orders.subscribe(group="a")(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="a handler is a function"):
        orders.subscribe(group="a")("handle")  # type: ignore[call-overload]

    def provided() -> int:
        return 1

    async def with_more(order: OrderPlaced, one: int = Depends(provided), other: int = 2) -> None: ...

    orders.subscribe(group="a")(with_more)
    orders.subscribe(group="b")(partial(with_more, other=3))


def test_what_a_handler_takes_must_fit_its_options(app: App) -> None:
    orders = app.topic("orders", OrderPlaced)

    async def lists(orders: list[OrderPlaced]) -> None: ...
    async def deliveries(orders: list[Delivery[OrderPlaced]]) -> None: ...

    with pytest.raises(ConfigurationError, match="must take a Delivery"):
        orders.subscribe(group="a", ack="manual")(handle)
    with pytest.raises(ConfigurationError, match="must take a list"):
        orders.subscribe(group="a", batch=5)(handle)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="BatchResult"):
        orders.subscribe(group="a", batch=5)(deliveries)  # type: ignore[arg-type]
    orders.subscribe(group="a", batch=5)(lists)


async def test_annotations_that_are_known_later_are_checked_by_the_worker(app: App) -> None:
    orders = app.topic("orders", OrderPlaced)

    async def handler(order: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
        ...

    orders.subscribe(group="a")(handler)
    with pytest.raises(ConfigurationError, match="Nowhere"):
        app.worker()


def test_they_say_what_they_are(app: App) -> None:
    orders = app.topic("orders", OrderPlaced)
    assert repr(orders) == "<Topic orders>"
    assert repr(app.topics("orders.*")) == "<TopicPattern orders.*>"


# --- how they are shown ----------------------------------------------------------------------------------


def test_an_unknown_option_is_refused_and_the_known_ones_are_named(app: App) -> None:
    orders = app.topic("orders", int)
    strange: Any = {"priority": 1}
    with pytest.raises(ConfigurationError, match=r"topic\(\) has no option .*; it has idempotency_window"):
        app.topic("other", **strange)
    with pytest.raises(ConfigurationError, match=r"subscribe\(\) has no option .*; it has ack, batch"):
        orders.subscribe("billing", **strange)
    with pytest.raises(ConfigurationError, match=r"publish\(\) has no option .*; it has at, content_type"):
        orders.message(1, **strange)


def test_signatures_show_each_option_with_its_default() -> None:
    assert str(inspect.signature(Topic.publish)).startswith(
        "(self, event: 'T', *, transaction: 'object' = None, key: 'str | None' = None, headers: "
    )
    assert inspect.signature(App.topic).parameters["idempotency_window"].default == 3600
    assert inspect.signature(Topic.subscribe).parameters["ack"].default == "success"
    assert inspect.signature(App.task).parameters["queue"].default == "default"
