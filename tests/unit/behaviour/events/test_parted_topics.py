"""Topics with partitions, as an app uses them: publishers, handlers and listings are the same as without."""

from __future__ import annotations

import logging
from collections import defaultdict

import pytest

from headrace import App, ConfigurationError, Event, RetryPolicy, Unrecoverable
from headrace.core.rules.layout import PARTS_MOST
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.events.orders import OrderPlaced, orders_of, placed, until_done
from tests.unit.behaviour.work import LONG, drain


async def _parts(store: InterceptedStore) -> set[str]:
    """Where the events of the topic lie."""
    return {record.stream.name for record in await store.topics() if record.length}


async def _partitions(app: App) -> int:
    [topic] = await app.admin.topics()
    return topic.partitions


# --- declaring --------------------------------------------------------------------------------------------


async def test_a_topic_is_laid_out_as_it_is_declared_when_it_is_first_used(
    app: App, store: InterceptedStore
) -> None:
    orders = app.topic("orders", OrderPlaced, partitions=4)
    await placed(orders, *range(50))
    assert await _partitions(app) == 4
    assert await _parts(store) == {f"orders#1.{index}" for index in range(4)}


async def test_a_worker_that_comes_first_lays_it_out_too(app: App) -> None:
    orders = app.topic("orders", OrderPlaced, partitions=4)
    seen: list[int] = []

    @orders.subscribe(group="billing")
    async def bill(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    async with app.worker():
        await placed(orders, *range(50))
        await wait_until(lambda: len(seen) == 50)
    assert sorted(seen) == list(range(50))
    assert await _partitions(app) == 4


async def test_of_a_topic_that_is_in_use_what_is_stored_counts(caplog: pytest.LogCaptureFixture) -> None:
    first, second = App("memory://in-use"), App("memory://in-use")
    async with first, second:
        await placed(orders_of(first), 1)
        declared = second.topic("orders", OrderPlaced, partitions=4)
        with caplog.at_level(logging.WARNING, logger="headrace"):
            await placed(declared, 2)
            await placed(declared, 3)
        assert await _partitions(second) == 1
    assert caplog.text.count("is declared with 4 partitions and has 1") == 1


async def test_the_same_declaration_gives_the_same_topic(app: App) -> None:
    topic = app.topic("orders", OrderPlaced, partitions=4)
    assert app.topic("orders", OrderPlaced, partitions=4) is topic
    with pytest.raises(ConfigurationError, match="declared twice"):
        app.topic("orders", OrderPlaced, partitions=5)


@pytest.mark.parametrize("partitions", [0, -1, 1.5, "8", True, PARTS_MOST + 1])
async def test_a_number_of_partitions_that_cannot_be_is_refused(app: App, partitions: int) -> None:
    with pytest.raises(ConfigurationError, match="partitions must be"):
        app.topic("orders", OrderPlaced, partitions=partitions)


# --- using ------------------------------------------------------------------------------------------------


async def test_groups_and_fan_outs_get_everything(app: App) -> None:
    """Two groups and a fan-out: each gets everything once, and the ordered one every key in its order."""
    orders = app.topic("orders", OrderPlaced, partitions=4)
    billed: list[int] = []
    shown: list[int] = []
    audited: defaultdict[str | None, list[int]] = defaultdict(list)

    @orders.subscribe(group="billing")
    async def bill(order: OrderPlaced) -> None:
        billed.append(order.order_id)

    @orders.subscribe(group="audit", ordered=True)
    async def audit(event: Event[OrderPlaced]) -> None:
        audited[event.key].append(event.payload.order_id)

    @orders.subscribe(fan_out=True)
    async def show(order: OrderPlaced) -> None:
        shown.append(order.order_id)

    async with app.worker():
        for first in range(0, 200, 20):
            for key in "abcd":
                await placed(orders, *range(first, first + 20), key=key)
        await wait_until(lambda: len(billed) >= 800)
        await wait_until(lambda: sum(map(len, audited.values())) >= 800)
        await wait_until(lambda: len(shown) >= 800)
        await until_done(app, "billing", "audit")
    assert len(billed) == len(shown) == 800
    assert audited == {key: list(range(200)) for key in "abcd"}


async def test_dead_letters_and_listings_see_one_topic(app: App) -> None:
    orders = app.topic("orders", OrderPlaced, partitions=3)
    strict = True

    @orders.subscribe(group="billing", start="beginning", retry=RetryPolicy.none())
    async def bill(order: OrderPlaced) -> None:
        if strict and order.order_id % 2:
            raise Unrecoverable("odd")

    ids = await placed(orders, *range(20))
    await drain(app)
    [topic] = await app.admin.topics()
    assert (topic.name, topic.length, topic.groups[0].dead) == ("orders", 20, 10)
    letters = await app.admin.dead(topic="orders")
    assert {(letter.topic, letter.group) for letter in letters} == {("orders", "billing")}
    assert sorted(letter.id for letter in letters) == sorted(ids[1::2])
    info = await app.admin.job(ids[1])
    assert info is not None
    assert (info.topic, info.group, info.status) == ("orders", "billing", "dead")
    strict = False
    assert await app.admin.replay(topic="orders") == 10
    await drain(app)
    [topic] = await app.admin.topics()
    assert (topic.groups[0].dead, topic.groups[0].lag) == (0, 0)
    assert await app.admin.queues() == [] or {each.name for each in await app.admin.queues()} == {"default"}


async def test_a_tail_follows_all_parts(app: App) -> None:
    orders = app.topic("orders", OrderPlaced, partitions=3)
    await placed(orders, 1)
    tail = app.admin.tail("orders", since="beginning")
    assert (await anext(tail)).payload == {"order_id": 1}
    await placed(orders, *range(2, 12))
    seen = [(await anext(tail)).payload["order_id"] for _ in range(10)]
    assert sorted(seen) == list(range(2, 12))
    await tail.stop()
    ended = [event.id async for event in app.admin.tail("orders", since="beginning", follow=False)]
    assert len(ended) == 11


async def test_a_tail_may_begin_where_a_group_is(app: App) -> None:
    orders = app.topic("orders", OrderPlaced, partitions=3)

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: OrderPlaced) -> None: ...

    await placed(orders, *range(10))
    await drain(app)
    later = await placed(orders, *range(10, 20))
    for expected in (later, []):
        tail = app.admin.tail("orders", group="billing", follow=False)
        assert sorted([event.id async for event in tail]) == sorted(expected)
        await drain(app)


async def test_a_group_handles_the_history_of_all_parts_again(app: App) -> None:
    orders = app.topic("orders", OrderPlaced, partitions=3)
    seen: list[int] = []

    @orders.subscribe(group="billing", start="beginning", ordered=True)
    async def bill(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    await placed(orders, 1, 2, 3, 4, key="a")
    await drain(app)
    await orders.replay(group="billing")
    await drain(app)
    assert seen == [1, 2, 3, 4] * 2
    await app.admin.reset_group("orders", "billing", to="new")
    await drain(app)
    assert len(seen) == 8


async def test_delayed_events_are_published_in_their_part(app: App, store: InterceptedStore) -> None:
    orders = app.topic("orders", OrderPlaced, partitions=3)
    seen: list[int] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    await orders.publish(OrderPlaced(1), delay=60)
    await orders.publish(OrderPlaced(2), delay=60)
    async with app.worker(lease=LONG):
        store.pass_time(61)
        await wait_until(lambda: sorted(seen) == [1, 2])


async def test_patterns_find_a_split_topic_once(app: App) -> None:
    seen: list[int] = []

    @app.topics("orders.*", OrderPlaced).subscribe(group="billing", start="beginning")
    async def bill(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    await placed(app.topic("orders.eu", OrderPlaced, partitions=3), *range(10))
    await placed(app.topic("orders.us", OrderPlaced), *range(10, 20))
    await drain(app)
    assert sorted(seen) == list(range(20))
    assert [topic.name for topic in await app.admin.topics()] == ["orders.eu", "orders.us"]
