"""Pulling events: a consumer is a member of its group while it is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headrace import (
    AlreadySettled,
    App,
    ConfigurationError,
    Delivery,
    JobStatus,
    RetryPolicy,
    Topic,
)
from tests.integration.api.conftest import MakeApp
from tests.support.waiting import wait_until

#: Seconds within which the next delivery comes.
SOON = 10


async def settled(app: App) -> None:
    """Wait until the group has nothing left."""

    async def is_empty() -> bool:
        [topic] = await app.admin.topics()
        return all(group.lag == 0 and not group.running and not group.queued for group in topic.groups)

    await wait_until(is_empty)


async def pulled(orders: Topic[int], count: int, settle: Callable[[Delivery[int]], object]) -> list[int]:
    payloads: list[int] = []
    async with orders.consume("audit", start="beginning") as deliveries, asyncio.timeout(SOON):
        async for delivery in deliveries:
            payloads.append(delivery.payload)
            if asyncio.iscoroutine(settling := settle(delivery)):
                await settling
            if len(payloads) == count:
                break
    return payloads


async def test_events_are_pulled_and_settled_by_hand(make_app: MakeApp) -> None:
    app = make_app()
    orders = app.topic("orders", int)
    await orders.publish_many(range(30))
    assert await pulled(orders, 30, lambda delivery: delivery.ack()) == list(range(30))
    await settled(app)


async def test_leaving_the_block_hands_back_what_is_not_settled(make_app: MakeApp) -> None:
    app = make_app()
    orders = app.topic("orders", int)
    await orders.publish_many(range(5))

    async def keep_the_second(delivery: Delivery[int]) -> None:
        if delivery.payload != 1:
            await delivery.ack()

    assert await pulled(orders, 2, keep_the_second) == [0, 1]
    async with orders.consume("audit") as deliveries, asyncio.timeout(SOON):
        left = {}
        async for delivery in deliveries:
            left[delivery.payload] = delivery
            await delivery.ack()
            if len(left) == 4:
                break
    assert sorted(left) == [1, 2, 3, 4]
    assert left[1].attempt == 1  # a hand-back uses up no retry
    assert left[1].redelivered


async def test_asking_for_the_next_one_settles_the_one_before(make_app: MakeApp) -> None:
    app = make_app()
    orders = app.topic("orders", int)
    await orders.publish_many([1, 2, 3])
    async with orders.consume("audit", ack="success", start="beginning") as deliveries:
        async with asyncio.timeout(SOON):
            assert [(await anext(deliveries)).payload for _ in range(3)] == [1, 2, 3]
    async with orders.consume("audit", ack="success") as deliveries, asyncio.timeout(SOON):
        assert (await anext(deliveries)).payload == 3  # the last was handed back


async def test_on_receipt_an_event_does_not_come_again(make_app: MakeApp) -> None:
    app = make_app()
    orders = app.topic("orders", int)
    await orders.publish_many([1, 2])
    async with orders.consume("audit", ack="receipt", start="beginning") as deliveries:
        async with asyncio.timeout(SOON):
            first = await anext(deliveries)
        with pytest.raises(AlreadySettled):
            await first.ack()
        await wait_until(lambda: app.admin.topics(), message="the store answers")
    async with orders.consume("audit", ack="receipt") as deliveries, asyncio.timeout(SOON):
        assert (await anext(deliveries)).payload == 2


async def test_a_pulled_event_is_retried_and_rejected(make_app: MakeApp) -> None:
    app = make_app(retry=RetryPolicy.fixed(1, 0))
    orders = app.topic("orders", int)
    await orders.publish(7)

    async def retry_then_reject(delivery: Delivery[int]) -> None:
        if delivery.attempt == 1:
            await delivery.retry(0, reason="busy")
        else:
            await delivery.reject("no such order")

    assert await pulled(orders, 2, retry_then_reject) == [7, 7]
    [letter] = await app.admin.dead(topic="orders", group="audit")
    assert (letter.error, letter.attempts) == ("no such order", 2)


async def test_consumers_of_one_group_share_its_events(make_app: MakeApp) -> None:
    app = make_app()
    orders = app.topic("orders", int)
    got: list[int] = []

    async def pull() -> None:
        async with orders.consume("audit", start="beginning", max_in_flight=2) as deliveries:
            async for delivery in deliveries:
                got.append(delivery.payload)
                await delivery.ack()
                if len(got) >= 40:
                    return

    async with asyncio.timeout(30):
        both = [asyncio.create_task(pull()) for _ in range(2)]
        await orders.publish_many(range(40))
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    for each in both:
        each.cancel()
    await asyncio.gather(*both, return_exceptions=True)
    assert sorted(got) == list(range(40))


async def test_closing_the_app_ends_the_loops_of_a_consumer(make_app: MakeApp) -> None:
    app = make_app()
    orders = app.topic("orders", int)
    opened = asyncio.Event()

    async def pull() -> list[list[int]]:
        async with orders.consume("audit") as deliveries:

            async def loop() -> list[int]:
                return [delivery.payload async for delivery in deliveries]

            opened.set()
            return list(await asyncio.gather(loop(), loop()))

    pulling = asyncio.create_task(pull())
    await opened.wait()
    await app.close()
    assert await asyncio.wait_for(pulling, SOON) == [[], []]


async def test_a_consumer_is_opened_once(make_app: MakeApp) -> None:
    app = make_app()
    orders = app.topic("orders", int)
    consumer = orders.consume("audit")
    async with consumer:
        assert [worker.groups for worker in await app.admin.workers()] in ([], [("orders/audit",)])
    with pytest.raises(ConfigurationError, match=r"ask topic.consume\(\) for another"):
        async with consumer:
            pass
    for wrong in ({"ack": "never"}, {"max_in_flight": 0}, {"start": "yesterday"}):
        with pytest.raises(ConfigurationError):
            orders.consume("audit", **wrong)
    assert JobStatus.QUEUED
