"""What a worker has in hand of events: held under a lease, or by this process alone."""

from __future__ import annotations

import asyncio

from headrace import App, Delivery
from headrace.core.messages.message import group_stream
from headrace.core.runtime.clock import MovableClock
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.events.orders import OrderPlaced, counts, orders_of, placed, until_done
from tests.unit.behaviour.work import LONG


async def test_of_those_that_have_crashed_twice_one_is_handled_at_a_time_in_all_groups(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    orders = orders_of(app)
    groups = [f"group-{n}" for n in range(4)]
    inside = most = 0
    attempts: list[int] = []

    def follow(group: str) -> None:
        @orders.subscribe(group=group)
        async def handle(delivery: Delivery[OrderPlaced]) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            attempts.append(delivery.attempt)
            await asyncio.sleep(0.005)
            inside -= 1

    for group in groups:
        follow(group)
    async with app.worker(lease=60):
        pass
    await placed(orders, 1, 2)
    sources = [group_stream("orders", group) for group in groups]
    for _ in range(2):  # twice a worker claims them and disappears
        clock.advance(61)
        await store.reclaim(sources, limit=8)
        for source in sources:
            assert len(await store.claim([source], consumer="ghost", limit=2, suspects=0, wait=0)) == 2
    claims = store.watch("claim")
    async with app.worker(queues=[], lease=60):
        # All of them wait for events, and are ready to take such a one.
        await wait_until(lambda: claims.under_way == len(groups))
        clock.advance(61)
        store.change_lease(sources[0], 59)
        await wait_until(lambda: len(attempts) == 8, timeout=20)
        await until_done(app, *groups)
    assert attempts == [3] * 8
    assert most == 1


async def test_a_paused_group_is_not_read_and_goes_on_when_it_is_resumed(app: App) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(group="audit")
    async def audit(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    async with app.worker(lease=LONG):
        await app.admin.pause_group("orders", "audit")
        await placed(orders, 1)
        assert (await counts(app, "audit")).lag == 1
        await app.admin.resume_group("orders", "audit")
        await wait_until(lambda: seen == [1])
