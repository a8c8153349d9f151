"""An import with limits: pages come from an API that allows 20 requests a second and 4 at a time. Rows are
written in batches.

$ python examples/etl.py
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter

import msgspec

from headrace import App, Limit, RetryPolicy

PAGES = 30
ROWS = 20

app = App(os.environ.get("HEADRACE_URL", "memory://"))

#: One budget for everything that asks this API, in every worker of the fleet.
partner = Limit("partner-api", rate="20/s", max_running=4)


class Row(msgspec.Struct):
    page: int
    number: int
    country: str


class PartnerApi:
    """Stands for the API of a partner: it refuses what goes beyond its limit."""

    def __init__(self) -> None:
        self.running = self.most = self.requests = 0

    async def page(self, number: int) -> list[Row]:
        self.running += 1
        self.requests += 1
        request = self.requests
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0.02)
            if request % 10 == 0:
                raise ConnectionError("the API is away")
            return [Row(number, row, ("de", "fr", "it")[row % 3]) for row in range(ROWS)]
        finally:
            self.running -= 1


api = PartnerApi()
table: dict[tuple[int, int], Row] = {}
batches: list[int] = []


@app.task(name="etl.extract", limits=[partner], retry=RetryPolicy.fixed(5, delay=0.1, on=ConnectionError))
async def extract(page: int) -> None:
    rows = await api.page(page)
    # An id for each row: when this job runs again, its rows are not enqueued twice.
    await app.enqueue_many(
        [load.with_(job_id=f"row-{row.page}-{row.number}").call(transform(row)) for row in rows]
    )


def transform(row: Row) -> Row:
    return msgspec.structs.replace(row, country=row.country.upper())


@app.task(name="etl.load", queue="load", batch=100, batch_wait=0.05)
async def load(rows: list[Row]) -> None:
    """One statement for many rows. A row that comes twice is written once."""
    batches.append(len(rows))
    table.update({(row.page, row.number): row for row in rows})


async def main() -> None:
    async with app:
        await app.enqueue_many([extract.with_(unique=True).call(page) for page in range(PAGES)])
        began = time.monotonic()
        await app.worker(concurrency=100).run(burst=True)
        seconds = time.monotonic() - began
    print(f"{len(table)} rows of {PAGES} pages in {seconds:.1f} s")
    print(f"{api.requests} requests, at most {api.most} at a time, {api.requests / seconds:.0f} a second")
    print(f"{len(batches)} batches, countries: {dict(Counter(row.country for row in table.values()))}")


if __name__ == "__main__":
    asyncio.run(main())
