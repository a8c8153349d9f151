"""Jobs in the producers' own transactions: some are rolled back as a whole, some to a savepoint. With
PostgreSQL, the producers' tables are in the database of the store. Otherwise they are in a SQLite file with
an outbox. The table of orders is the witness: a job runs if, and only if, its order is committed."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import msgspec
import psycopg

from headrace import HeadraceError, RetryPolicy
from tests.torture.facts import Plan
from tests.torture.program import PlannedFailure, Program
from tests.torture.shops import OUTBOX_FILE, PostgresShop, Shop, SqliteShop

program = Program.from_environment(rate=150.0, outbox=OUTBOX_FILE)
app = program.app

#: Retries of every job.
RETRIES: Final = 3
POLICY: Final = RetryPolicy.fixed(RETRIES, 0.02)


class Order(msgspec.Struct):
    """`fails`: so many runs of its job fail."""

    message: str
    fails: int = 0


@app.task(name="charge", queue="charges", retry=POLICY)
async def charge(order: Order) -> None:
    with program.running(order.message) as attempt:
        await asyncio.sleep(0)
        if attempt <= order.fails:
            raise PlannedFailure(f"as planned, in attempt {attempt}")


def produce(program: Program) -> None:
    """One transaction after the other, each with a few orders."""
    shop = PostgresShop(program.url) if program.is_postgres else SqliteShop(program.outbox)
    while not program.stopped:
        try:
            _transact(program, shop, program.own)
        except (HeadraceError, psycopg.Error):
            shop.connect_again()  # the table of orders says how the transaction ended
        program.pace_sync(4)
    app.sync.close()


def _transact(program: Program, shop: Shop, own: random.Random) -> None:
    shop.execute(shop.begin)
    kept = [_place(program, shop, own) for _ in range(own.randint(1, 4))]
    undone: list[tuple[str, str]] = []
    if own.random() < 0.2:
        shop.execute("SAVEPOINT inner_part")
        undone = [_place(program, shop, own)]
        shop.execute("ROLLBACK TO inner_part")
    if own.random() < 0.2:
        shop.execute("ROLLBACK")
        kept, undone = [], [*kept, *undone]
    else:
        shop.execute("COMMIT")
    for message, id in kept:
        program.accept(message, id)
    for message, _ in undone:
        program.recorder.write("refused", message=message, value="rolled back")


def _place(program: Program, shop: Shop, own: random.Random) -> tuple[str, str]:
    """Write an order and enqueue its job, in the open transaction."""
    message, fails = program.new_message(), own.choices([0, 1], [9, 1])[0]
    program.invoke(message, Plan(task="charge", attempts=RETRIES + 1, fails=fails))
    job = app.sync.enqueue(charge.call(Order(message, fails)), transaction=shop.connection)
    shop.execute(f"INSERT INTO {shop.table} VALUES ({shop.mark}, {shop.mark})", (message, job.id))
    return message, job.id
