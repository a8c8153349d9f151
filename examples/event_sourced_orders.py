"""Event-sourced orders: the log of a topic is the truth. Two groups read it, and views are built again.

$ python examples/event_sourced_orders.py
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import msgspec

from headrace import App, Event


class OrderPlaced(msgspec.Struct, tag=True):
    order: int
    customer: str
    amount: int


class OrderPaid(msgspec.Struct, tag=True):
    order: int


class OrderCancelled(msgspec.Struct, tag=True):
    order: int


OrderEvent = OrderPlaced | OrderPaid | OrderCancelled

app = App(os.environ.get("HEADRACE_URL", "memory://"))
orders = app.topic("orders", OrderEvent, idempotency_window=3600)

#: Views: what each group has made of the events. In production these are tables.
status: dict[int, str] = {}
revenue: Counter[str] = Counter()
amounts: dict[int, tuple[str, int]] = {}


@orders.subscribe(group="status", ordered=True, start="beginning")
async def show_status(event: OrderEvent) -> None:
    """Events of one order come in their order, also when a handler fails and is retried."""
    match event:
        case OrderPlaced():
            assert event.order not in status
            status[event.order] = "placed"
        case OrderPaid():
            assert status[event.order] == "placed"
            status[event.order] = "paid"
        case OrderCancelled():
            status[event.order] = "cancelled"


@orders.subscribe(group="revenue", ordered=True, start="beginning")
async def count_revenue(event: Event[OrderEvent]) -> None:
    match event.payload:
        case OrderPlaced(order, customer, amount):
            amounts[order] = customer, amount
        case OrderPaid(order):
            customer, amount = amounts[order]
            revenue[customer] += amount


async def place_pay_and_cancel() -> None:
    """The key keeps the events of an order in their order. The idempotency key makes a repeat harmless."""
    for order in range(1, 31):
        customer = ("ann", "bob", "eve")[order % 3]
        placed = OrderPlaced(order, customer, amount=10 * order)
        for _ in range(2):  # a web request that is sent twice
            await orders.publish(placed, key=str(order), idempotency_key=f"place-{order}")
    for order in range(1, 31):
        event: OrderEvent = OrderCancelled(order) if order % 5 == 0 else OrderPaid(order)
        await orders.publish(event, key=str(order), idempotency_key=f"end-{order}")


async def main() -> None:
    async with app:
        await place_pay_and_cancel()
        await app.worker().run(burst=True)
        print(f"orders: {dict(Counter(status.values()))}")
        print(f"revenue: {dict(sorted(revenue.items()))}")

        print("the view of the revenue was wrong: it is built again from the log")
        revenue.clear()
        await orders.replay(group="revenue", since="beginning")
        await app.worker().run(burst=True)
        print(f"revenue: {dict(sorted(revenue.items()))}")


if __name__ == "__main__":
    asyncio.run(main())
