"""What was done lately is counted by the minute, for plots."""

from __future__ import annotations

from headrace import App, RetryPolicy
from tests.support.waiting import wait_until


async def test_what_workers_do_is_counted_by_queue_and_group() -> None:
    app = App("memory://")
    orders = app.topic("orders", int)

    @app.task
    async def work(number: int) -> None:
        if number == 3:
            raise ValueError("three")

    @app.task(queue="fragile", retry=RetryPolicy.none())
    async def fragile() -> None:
        raise ValueError("always")

    @orders.subscribe(group="billing")
    async def bill(order: int) -> None: ...

    async with app, app.worker():
        await app.enqueue_many([work.call(number) for number in range(3)])
        await fragile.enqueue()
        await orders.publish_many(list(range(5)))

        async def counted() -> bool:
            sums = {
                (each.kind, each.name): (sum(each.done), sum(each.failed), sum(each.dead))
                for each in await app.admin.traffic()
            }
            return sums == {
                ("queue", "default"): (3, 0, 0),
                ("queue", "fragile"): (0, 1, 1),
                ("group", "orders/billing"): (5, 0, 0),
            }

        await wait_until(counted)


async def test_what_was_counted_last_is_written_when_a_worker_stops() -> None:
    app = App("memory://")

    @app.task
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        await app.worker().run(burst=True)
        [traffic] = await app.admin.traffic(minutes=5)
        assert (sum(traffic.done), len(traffic.done)) == (1, 5)
