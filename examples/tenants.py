"""Fairness between tenants: a customer who enqueues thousands of jobs does not delay the customer with three.

$ python examples/tenants.py
"""

from __future__ import annotations

import asyncio
import os

from headrace import App, Limit

app = App(os.environ.get("HEADRACE_URL", "memory://"))
finished: list[str] = []


@app.task(
    name="reports.render",
    tenant_by="customer",  # the tenants of a queue take turns
    limits=[Limit("customer", max_running=2, by="customer")],  # and each has at most two jobs at a time
)
async def render(customer: str, report: int) -> None:
    await asyncio.sleep(0.001)
    finished.append(customer)


async def main() -> None:
    async with app:
        # The big one comes first, with a thousand reports. Two small ones come later.
        await app.enqueue_many([render.call("big", report) for report in range(1000)])
        await app.enqueue_many([render.call("ann", report) for report in range(3)])
        await app.enqueue_many([render.call("bob", report) for report in range(3)])
        await app.worker(concurrency=4).run(burst=True)
    for customer in ("ann", "bob", "big"):
        last = len(finished) - finished[::-1].index(customer)
        print(f"{customer}: {finished.count(customer)} reports, the last one was number {last} of all")


if __name__ == "__main__":
    asyncio.run(main())
