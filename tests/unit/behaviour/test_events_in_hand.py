"""What a worker has in hand of events: held under a lease, or by this process alone."""

from __future__ import annotations

import asyncio

import pytest

from headrace import App, Delivery, Worker
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import group_stream
from headrace.core.runtime.clock import MovableClock
from headrace.engine.intake.group_reader import GroupReader
from headrace.engine.running import slots as slots_module
from tests.unit.behaviour.orders import OrderPlaced, counts, orders_of, placed, until_done
from tests.unit.behaviour.work import LONG
from tests.waiting import wait_until


async def test_a_pause_hands_back_what_is_held_and_leaves_what_was_received(app: App) -> None:
    orders = orders_of(app)
    gate = asyncio.Event()

    @orders.subscribe(group="audit", start="beginning")
    async def audit(order: OrderPlaced) -> None:
        await gate.wait()

    await placed(orders, 1)
    async with app.worker(concurrency=1, lease=LONG) as worker:
        await wait_until(lambda: worker.running == 1)
        [running] = worker._parts.claims.held.running
        received = Claim(running.stream, "received", running.body, None, 0)
        held = Claim(running.stream, "held", running.body, None, 0)
        worker._parts.running.slots.put([received, held])
        worker._parts.claims.held.take([held])
        worker._parts.upkeep.claim_control.handle_pauses(frozenset({running.whole}))
        assert list(worker._parts.running.slots.ready) == [received]
        worker._parts.running.slots.take_back()
        gate.set()


async def test_what_only_this_process_has_does_not_hide_what_is_hoarded_behind_it(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots_module, "LONGEST_BUFFERED", 0.01)
    orders = orders_of(app)
    gate = asyncio.Event()

    @orders.subscribe(group="audit", start="beginning")
    async def audit(order: OrderPlaced) -> None:
        await gate.wait()

    await placed(orders, 1)
    async with app.worker(concurrency=1, lease=LONG) as worker:
        await wait_until(lambda: worker.running == 1)
        [running] = worker._parts.claims.held.running
        received = Claim(running.stream, "received", running.body, None, 0)
        held = Claim(running.stream, "held", running.body, None, 0)
        worker._parts.claims.held.take([held])
        worker._parts.running.slots.put([received, held])
        await wait_until(lambda: list(worker._parts.running.slots.ready) == [received])
        worker._parts.running.slots.take_back()
        gate.set()


async def test_of_those_that_have_crashed_twice_one_is_handled_at_a_time_in_all_groups(
    app: App, clock: MovableClock
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
    store = app._app_loop.backend
    sources = [group_stream("orders", group) for group in groups]
    for _ in range(2):  # twice somebody takes them, and is never seen again
        clock.advance(61)
        await store.reclaim(sources, limit=8)
        for source in sources:
            assert len(await store.claim([source], consumer="ghost", limit=2, suspects=0, wait=0)) == 2
    async with app.worker(lease=60) as worker:
        # All of them wait for events, and are ready to take such a one.
        await wait_until(lambda: all(store.store._waiting[each.consumer] for each in fetchers(worker)))  # type: ignore[attr-defined]
        clock.advance(61)
        worker._parts.upkeep.recovery.poke()
        await wait_until(lambda: len(attempts) == 8, timeout=20)
        await until_done(app, *groups)
    assert attempts == [3] * 8
    assert most == 1


def fetchers(worker: Worker) -> list[GroupReader]:
    return list(worker._parts.intake.subscriptions._groups.values())


async def test_a_paused_group_is_not_read_and_goes_on_when_it_is_resumed(app: App) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(group="audit")
    async def audit(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    async with app.worker(lease=LONG):
        await app.admin.pause_group("orders", "audit")
        await placed(orders, 1)
        assert (await counts(app, "audit")).queued == 1
        await app.admin.resume_group("orders", "audit")
        await wait_until(lambda: seen == [1])
