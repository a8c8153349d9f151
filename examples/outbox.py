"""A transactional outbox: an order and its job are one step, also when the process dies in between.

$ python examples/outbox.py
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from contextlib import closing

from headrace import App

#: The database of the shop. The jobs are in another store: in production Redis, with PostgreSQL for the shop.
SHOP = "shop.db"

app = App(os.environ.get("HEADRACE_URL", "sqlite:///jobs.db"), outbox=f"sqlite:///{SHOP}")
charged: list[int] = []


@app.task(name="shop.charge")
async def charge(order: int) -> None:
    charged.append(order)


def place(order: int, connection: sqlite3.Connection, *, declined: bool = False) -> None:
    """The row and the job are written by the same transaction."""
    with connection:
        connection.execute("INSERT INTO orders (id) VALUES (?)", (order,))
        app.sync.enqueue(charge.call(order), transaction=connection)
        if declined:
            raise ValueError("the card is declined")


def serve() -> None:
    """A web process: it places orders, and is killed right after a commit."""
    with closing(sqlite3.connect(SHOP)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)")
        with connection:
            connection.execute("DELETE FROM orders")  # those of an earlier run of this example
        place(1, connection)
        try:
            place(2, connection, declined=True)
        except ValueError as error:
            print(f"order 2: {error}; neither the order nor the job exists")
        place(3, connection)
        print("order 3 is committed, and the process is killed", flush=True)
        os._exit(1)


async def main() -> None:
    apply = ("headrace", "schema", "apply", f"sqlite:///{SHOP}")  # once for each database
    made = await asyncio.create_subprocess_exec(sys.executable, "-m", *apply)
    assert await made.wait() == 0
    web = await asyncio.create_subprocess_exec(sys.executable, __file__, "serve")
    await web.wait()

    async with app:
        # Every worker relays the outbox: it takes the jobs of committed transactions to their queues.
        await app.worker().run(burst=True)
    with closing(sqlite3.connect(SHOP)) as connection:
        orders = [id for (id,) in connection.execute("SELECT id FROM orders ORDER BY id")]
    print(f"orders: {orders}, charged: {sorted(charged)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())
