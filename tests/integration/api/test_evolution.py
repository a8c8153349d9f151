"""New versions of arguments and events, types of users, and the check of arguments at enqueue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from headrace import (
    App,
    ConfigurationError,
    Depends,
    EncryptedCodec,
    Event,
    InvalidPayload,
    JobFailed,
    JobStatus,
    RetryPolicy,
)
from headrace.core.crypto.keys import new_key
from tests.integration.api.conftest import MakeApp
from tests.support.waiting import wait_until


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y


def to_list(point: Point) -> list[int]:
    return [point.x, point.y]


def from_list(data: list[int]) -> Point:
    return Point(*data)


POINT = {Point: (to_list, from_list)}


def first_version(app: App) -> Any:
    @app.task(name="greet")
    async def greet(name: str) -> str:
        return f"hello {name}"

    return greet


def third_version(app: App) -> Any:
    @app.task(name="greet", version=3)
    async def greet(first: str, last: str, *, title: str) -> str:
        return f"hello {title} {first} {last}"

    @greet.upcast(from_version=1)
    def split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        [name] = args or (kwargs["name"],)
        return name.split(" "), {}

    @greet.upcast(from_version=2)
    def with_title(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        return args, {**kwargs, "title": "Dr."}

    return greet


@pytest.mark.parametrize("codec", [None, EncryptedCodec(new_key())])
async def test_older_arguments_go_through_every_upcast(
    make_app: MakeApp, codec: EncryptedCodec | None
) -> None:
    old, new = make_app(codec=codec), make_app(codec=codec)
    first_version(old)
    third = third_version(new)
    jobs = [
        await old.tasks["greet"].enqueue("Ada Lovelace"),
        await old.tasks["greet"].enqueue(name="Alan Turing"),
        await third.enqueue("Grace", "Hopper", title="Admiral"),
    ]
    async with new.worker():
        assert await new.results(jobs, timeout=10) == [
            "hello Dr. Ada Lovelace",
            "hello Dr. Alan Turing",
            "hello Admiral Grace Hopper",
        ]


async def test_an_older_worker_hands_a_newer_version_back(make_app: MakeApp) -> None:
    old, new = make_app(), make_app()
    first_version(old)
    third = third_version(new)
    job = await third.enqueue("Grace", "Hopper", title="Admiral")

    async def is_handed_back() -> bool:
        info = await job.info()
        return info.status is JobStatus.SCHEDULED and any(entry.what == "unknown" for entry in info.trail)

    async with old.worker():
        await wait_until(is_handed_back)
    async with new.worker():
        await new.admin.retry_now(job.id)  # unless it is due already
        assert await job.result(timeout=10) == "hello Admiral Grace Hopper"


async def test_arguments_that_no_upcast_can_read_are_a_dead_letter(make_app: MakeApp) -> None:
    old, new = make_app(), make_app()
    first_version(old)
    third_version(new)
    broken = await old.tasks["greet"].enqueue("Sappho")
    await new.worker().run(burst=True)
    with pytest.raises(JobFailed, match="first"):
        await broken.result(timeout=10)

    other = make_app()

    @other.task(name="greet", version=2)
    async def greet(name: str) -> str:
        return name

    job = await old.tasks["greet"].enqueue("Ada")
    await other.worker().run(burst=True)
    with pytest.raises(JobFailed, match=r"declare one with @task.upcast\(from_version=1\)"):
        await job.result(timeout=10)
    letters = await new.admin.dead()
    assert {letter.reason for letter in letters} == {"invalid"}


@pytest.mark.parametrize(
    ("version", "from_version", "message"),
    [
        (1, 1, "has version 1, so there is nothing to upcast"),
        (3, 3, "from_version is from 1 to 2, not 3"),
        (3, 0, "from_version is from 1 to 2, not 0"),
        (3, "1", "from_version must be a whole number"),
    ],
)
def test_wrong_upcasts_are_refused(version: int, from_version: Any, message: str) -> None:
    app = App("memory://")

    @app.task(version=version)
    async def greet(name: str) -> None: ...

    orders = app.topic("orders", int, schema_version=version)
    with pytest.raises(ConfigurationError, match=message):
        greet.upcast(from_version=from_version)(lambda args, kwargs: (args, kwargs))
    with pytest.raises(ConfigurationError, match=message):
        orders.upcast(from_version=from_version)(lambda payload: payload)


def test_two_upcasts_from_one_version_are_refused() -> None:
    app = App("memory://")
    orders = app.topic("orders", int, schema_version=2)

    @orders.upcast(from_version=1)
    def one(payload: Any) -> Any:
        return payload

    with pytest.raises(ConfigurationError, match="two upcasts from version 1"):

        @orders.upcast(from_version=1)
        def two(payload: Any) -> Any:
            return payload

    with pytest.raises(ConfigurationError, match="version must be a whole number"):
        app.task(version=0)(one)
    with pytest.raises(ConfigurationError, match=r"such as range\(1, 3\)"):
        orders.subscribe("billing", schema_versions=())


class OrderPlaced(msgspec.Struct):
    order_id: int
    currency: str


async def handled(app: App, topic: str, count: int, **options: Any) -> list[Event[Any]]:
    """What a group of this app handles of a topic."""
    orders = app.declared_topics[topic]
    events: list[Event[Any]] = []

    async def bill(event: Event[Any]) -> None:
        events.append(event)

    orders.subscribe("billing", start="beginning", **options)(bill)
    async with app.worker():
        await wait_until(lambda: len(events) == count)
    return events


async def test_older_events_are_brought_to_the_version_of_the_topic(make_app: MakeApp) -> None:
    old, new = make_app(), make_app()
    await old.topic("orders", dict).publish({"order_id": 7})
    orders = new.topic("orders", OrderPlaced, schema_version=2)

    @orders.upcast(from_version=1)
    def with_currency(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "currency": "EUR"}

    await orders.publish(OrderPlaced(8, "USD"))
    first, second = await handled(new, "orders", 2)
    assert (first.payload, first.schema_version) == (OrderPlaced(7, "EUR"), 2)
    assert (second.payload, second.schema_version) == (OrderPlaced(8, "USD"), 2)


async def test_events_of_other_versions_are_dead_letters_of_the_group(make_app: MakeApp) -> None:
    app = make_app(retry=RetryPolicy.none())
    orders = app.topic("orders", dict[str, int])
    for version in (1, 2, 3):
        await orders.publish({"version": version}, schema_version=version)
    events = await handled(app, "orders", 2, schema_versions=range(1, 3))
    assert [event.schema_version for event in events] == [1, 2]
    [letter] = await app.admin.dead(topic="orders", group="billing")
    assert letter.reason == "invalid"
    assert "schema version 3, and this subscription takes 1, 2" in letter.error
    assert msgspec.msgpack.decode(letter.payload) == {"version": 3}


async def test_types_of_users_are_sent(make_app: MakeApp) -> None:
    app = make_app(encoders=POINT)
    points = app.topic("points", Point)
    got: asyncio.Queue[Point] = asyncio.Queue()

    @app.task
    async def mirror(point: Point, many: list[Point]) -> Point:
        return Point(point.y, many[0].x)

    @points.subscribe("map", start="beginning")
    async def draw(point: Point) -> None:
        got.put_nowait(point)

    async with app.worker():
        job = await mirror.enqueue(Point(1, 2), [Point(3, 4)])
        assert to_list(await job.result(timeout=10)) == [2, 3]
        await points.publish(Point(5, 6))
        assert to_list(await asyncio.wait_for(got.get(), 10)) == [5, 6]
        with pytest.raises(InvalidPayload, match="no Point can be made"):
            await mirror.enqueue([1], [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("encoders", "message"),
    [
        ({Point: (to_list, list)}, "Point has other encoders already"),
        ({Point: to_list}, r"needs two functions, \(to_builtin, from_builtin\)"),
        ({OrderPlaced: (to_list, from_list)}, "OrderPlaced can be sent as it is"),
        ({"Point": (to_list, from_list)}, "encoders are for types"),
        ([Point], "encoders maps types to two functions"),
    ],
)
def test_wrong_encoders_are_refused(encoders: Any, message: str) -> None:
    App("memory://", encoders=POINT)
    with pytest.raises(ConfigurationError, match=message):
        App("memory://", encoders=encoders)


def test_a_function_that_makes_an_app_may_make_its_encoders() -> None:
    class Length:
        def __init__(self, metres: float) -> None:
            self.metres = metres

    def make_app() -> App:
        return App("memory://", encoders={Length: (lambda length: length.metres, lambda data: Length(data))})

    make_app()
    make_app()


def connection() -> int:
    return 1


async def test_a_wrong_argument_is_refused_at_enqueue(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def add(
        a: int, b: float = 1.0, *, orders: list[OrderPlaced] | None = None, given: int = Depends(connection)
    ) -> float:
        return a + b

    wrong: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        (("x",), {}, "Expected `int`, got `str` - at `a`"),
        ((1, "x"), {}, "Expected `float`, got `str` - at `b`"),
        ((True,), {}, "Expected `int`, got `bool`"),
        ((1 << 70,), {}, "cannot be sent"),
        ((1,), {"orders": [OrderPlaced(1, 2)]}, "Expected `str`, got `int`"),  # type: ignore[arg-type]
        ((1,), {"orders": 5}, "orders"),
        ((), {}, "missing a required argument"),
    ]
    for args, kwargs, message in wrong:
        with pytest.raises(InvalidPayload, match=message):
            await add.enqueue(*args, **kwargs)
        with pytest.raises(InvalidPayload, match=message):
            await app.enqueue_many([add.call(1), add.call(*args, **kwargs), add.call(2)])
    assert not any(queue.queued for queue in await app.admin.queues())
    jobs = await app.enqueue_many([add.call(1), add.call(1, 2), add.call(1, orders=[OrderPlaced(1, "EUR")])])
    async with app.worker():
        assert await app.results(jobs, timeout=10) == [2.0, 3.0, 2.0]


async def test_the_check_can_be_left_to_the_worker(make_app: MakeApp) -> None:
    app = make_app(validate=False)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    job = await double.enqueue("x")  # type: ignore[arg-type]
    await app.worker().run(burst=True)
    with pytest.raises(JobFailed, match="Expected `int`, got `str`"):
        await job.result(timeout=10)
    with pytest.raises(ConfigurationError, match="validate must be True or False"):
        App("memory://", validate=1)  # type: ignore[arg-type]
