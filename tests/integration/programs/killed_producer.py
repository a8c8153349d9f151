"""Producers that are killed with SIGKILL around the commits of their transactions. Each transaction writes an
order into the user's own table, and enqueues its job.

The argument is JSON: `store`, `outbox` (or null), `namespace`, `library`, `database` (the user's own),
`points` and `random`. Each producer is a child of this process. `points` children have one transaction each.
They are killed at lines of Python that are evenly spread from its begin to the end of the program, and a few
more at the last lines. Then `random` children commit one transaction after the other, until they are killed
after a random time, anywhere.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import aiosqlite
import asyncpg  # type: ignore[import-untyped]
import psycopg
from sqlalchemy import create_engine, text

from headrace import App

GIVEN = json.loads(sys.argv[1])
DATABASE: str = GIVEN["database"]

app = App(GIVEN["store"], outbox=GIVEN["outbox"], namespace=GIVEN["namespace"])

#: Seconds after its first commit at which a child is killed at the latest.
LATEST = 0.1

#: More transactions than a child can commit in that time.
ENDLESS = 100_000

#: Among so many of the last lines, which are around the commit, a child is killed at each fifth.
LAST = 60

#: The order of the producer that is not killed.
UNHARMED = 900_000

#: What a library takes for a value.
INSERT = "INSERT INTO orders VALUES ({})"


@app.task(name="charge")
async def charge(order: int) -> None: ...


# --- transactions: the first order, how many, and what to call at the begin of each -------------------------

Begun = Callable[[], None]


def with_sqlite3(first: int, count: int, begun: Begun) -> None:
    connection = sqlite3.connect(DATABASE, timeout=30)
    for order in range(first, first + count):
        begun()
        with connection:
            connection.execute(INSERT.format("?"), (order,))
            app.sync.enqueue(charge.call(order), transaction=connection)


async def with_aiosqlite(first: int, count: int, begun: Begun) -> None:
    async with aiosqlite.connect(DATABASE, timeout=30) as connection:
        for order in range(first, first + count):
            begun()
            await connection.execute(INSERT.format("?"), (order,))
            await app.enqueue(charge.call(order), transaction=connection)
            await connection.commit()


def with_psycopg(first: int, count: int, begun: Begun) -> None:
    connection = psycopg.connect(DATABASE)
    for order in range(first, first + count):
        begun()
        with connection.transaction():
            connection.execute(INSERT.format("%s").encode(), (order,))
            app.sync.enqueue(charge.call(order), transaction=connection)


async def with_asyncpg(first: int, count: int, begun: Begun) -> None:
    connection = await asyncpg.connect(DATABASE)
    for order in range(first, first + count):
        begun()
        async with connection.transaction():
            await connection.execute(INSERT.format("$1"), order)
            await app.enqueue(charge.call(order), transaction=connection)


def with_sqlalchemy(first: int, count: int, begun: Begun) -> None:
    engine = create_engine(DATABASE.replace("postgresql://", "postgresql+psycopg://"))
    for order in range(first, first + count):
        begun()
        with engine.begin() as connection:
            connection.execute(text(INSERT.format(":order")), {"order": order})
            app.sync.enqueue(charge.call(order), transaction=connection)


LIBRARIES: dict[str, Callable[[int, int, Begun], Awaitable[None] | None]] = {
    "sqlite3": with_sqlite3,
    "aiosqlite": with_aiosqlite,
    "psycopg": with_psycopg,
    "asyncpg": with_asyncpg,
    "sqlalchemy": with_sqlalchemy,
}


def transact(first: int, count: int, begun: Begun) -> None:
    work = LIBRARIES[GIVEN["library"]](first, count, begun)
    if work is not None:
        asyncio.run(work)  # type: ignore[arg-type]


# --- kills -------------------------------------------------------------------------------------------------


def at_each_line(call: Callable[[], None]) -> Begun:
    """Call a function at each line of Python after the begin of the transaction."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            call()
        return trace

    def begun() -> None:
        sys.settrace(trace)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            frame.f_trace = trace
            frame = frame.f_back

    return begun


def kill_at(line: int) -> None:
    """A transaction whose process is killed at this line. The number of the order is that of the line."""
    lines = itertools.count()

    def kill() -> None:
        if next(lines) == line:
            os.kill(os.getpid(), signal.SIGKILL)

    transact(line, 1, at_each_line(kill))
    go_on()


def go_on() -> None:
    """Lines after the commit: some libraries run none of their own."""
    for _ in range(20):
        pass


def count_lines(writing: int) -> None:
    """A transaction whose process is not killed; tells its number of lines."""
    lines = itertools.count()

    def count() -> None:
        next(lines)

    transact(UNHARMED, 1, at_each_line(count))
    go_on()
    sys.settrace(None)
    os.write(writing, str(next(lines)).encode())


def in_child(work: Callable[[], None], kill: Callable[[int], None] = lambda child: None) -> None:
    """Run a producer to its end, or until it is killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    kill(child)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("a producer failed")


def kill_at_points(count: int) -> None:
    reading, writing = os.pipe()
    in_child(lambda: count_lines(writing))
    lines = int(os.read(reading, 100))
    spread = {lines * point // count for point in range(count)}
    for line in sorted(spread | set(range(lines - LAST, lines, 5))):
        in_child(functools.partial(kill_at, line))


def kill_anywhere(count: int) -> None:
    """Kill producers, each some time after its first commit."""
    reading, writing = os.pipe()
    own = random.Random(GIVEN["namespace"])

    def kill(child: int) -> None:
        os.read(reading, 1)
        time.sleep(own.uniform(0, LATEST))  # the random moment of the kill: no condition stands for it
        os.kill(child, signal.SIGKILL)

    for number in range(1, count + 1):
        in_child(functools.partial(produce, number * 1_000_000, writing), kill)


def produce(first: int, writing: int) -> None:
    """Commit one transaction after the other. Tells when the first one is committed."""
    begins = itertools.count()

    def begun() -> None:
        if next(begins) == 1:
            os.write(writing, b"+")

    transact(first, ENDLESS, begun)


kill_at_points(GIVEN["points"])
kill_anywhere(GIVEN["random"])
