"""A SQLite file that others use too: locked by a writer, held by a long reader, and left in the middle of a
commit by a process that is killed."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import apsw

from tests.torture.arena import SQLITE, Arena, Fault
from tests.torture.sqlite_lock import is_writable

#: How often a process is stopped until it stands in the middle of a commit.
TRIES = 200


def _connection(file: Path | None) -> apsw.Connection:
    connection = apsw.Connection(str(file))
    connection.set_busy_timeout(10_000)
    return connection


async def _lock(arena: Arena) -> None:
    with closing(_connection(arena.store.file)) as connection:
        async with arena.store_fault("file-locked-2-leases"):
            connection.execute("BEGIN IMMEDIATE")
            await arena.pause(leases=2)
            connection.execute("ROLLBACK")


async def _read_long(arena: Arena) -> None:
    """Writers need not wait for a reader, so it hits no process."""
    with closing(_connection(arena.store.file)) as connection:
        async with arena.fault("long-reader"):
            connection.execute("BEGIN; SELECT count(*) FROM sqlite_master")
            await arena.pause(leases=3)
            connection.execute("COMMIT")


async def _kill_in_commit(arena: Arena) -> None:
    """Stop a worker again and again until it holds the lock, and kill it there."""
    file = arena.store.file
    assert file is not None
    member = arena.one("worker")
    async with arena.fault("killed-in-commit", member.name):
        for _ in range(TRIES):
            member.send(signal.SIGSTOP)
            await arena.fleet.until(lambda: member.stands_still, 10)
            if not is_writable(file):
                break
            member.send(signal.SIGCONT)
            await arena.pause(seconds=arena.random.uniform(0.0, 0.02))
        member.send(signal.SIGKILL)
        await arena.fleet.until(lambda: member.ended, 10)
    await arena.fleet.fill_up()


FAULTS = [
    Fault("file-locked-2-leases", _lock, SQLITE),
    Fault("long-reader", _read_long, SQLITE),
    Fault("killed-in-commit", _kill_in_commit, SQLITE),
]
