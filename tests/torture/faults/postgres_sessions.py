"""What an operator, or another program, may do to the sessions and tables of PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import signal

import psycopg

from tests.torture.arena import POSTGRES, Arena, Fault
from tests.torture.postgres_commands import ALLOW_WRITES, REFUSE_WRITES, connected, run

#: The sessions of all others.
OTHERS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


async def _terminate(arena: Arena) -> None:
    async with arena.store_fault("sessions-terminated", gentle=True):
        run(arena.store.postgres, f"SELECT pg_terminate_backend(pid) {OTHERS}")
        await arena.pause(seconds=0.2)


async def _cancel(arena: Arena) -> None:
    """Whatever runs is cancelled, again and again."""
    async with arena.store_fault("statements-cancelled"):
        for _ in range(20):
            run(arena.store.postgres, f"SELECT pg_cancel_backend(pid) {OTHERS}")
            await arena.pause(leases=0.05)


async def _kill_one(arena: Arena) -> None:
    """The server then ends all sessions and recovers, as after a crash."""
    server = arena.store.postgres
    pids = [pid for (pid,) in run(server, f"SELECT pid {OTHERS}")]
    async with arena.store_fault("session-killed"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(arena.random.choice(pids), signal.SIGKILL)
        await arena.fleet.until(lambda: _answers(arena), 30)


def _answers(arena: Arena) -> bool:
    with contextlib.suppress(OSError, psycopg.Error):
        return bool(run(arena.store.postgres, "SELECT 1"))
    return False


async def _lock_table(arena: Arena) -> None:
    """As a change of the table by another program does."""
    async with arena.store_fault("table-locked-2-leases"):
        with connected(arena.store.postgres) as connection, connection.transaction():
            connection.execute("LOCK TABLE headrace.messages IN ACCESS EXCLUSIVE MODE")
            await arena.pause(leases=2)


async def _stay_open(arena: Arena) -> None:
    """A transaction that stays open, like that of a dump. Others need not wait for it: it hits no process."""
    with connected(arena.store.postgres) as connection:
        async with arena.fault("long-transaction"):
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                connection.execute("SELECT count(*) FROM headrace.messages")
                await arena.pause(leases=3)


async def _refuse_writes(arena: Arena) -> None:
    """As a standby does."""
    async with arena.store_fault("database-read-only"):
        run(arena.store.postgres, *REFUSE_WRITES)
        await arena.pause(leases=2)
        run(arena.store.postgres, *ALLOW_WRITES)


FAULTS = [
    Fault("sessions-terminated", _terminate, POSTGRES),
    Fault("statements-cancelled", _cancel, POSTGRES),
    Fault("session-killed", _kill_one, POSTGRES),
    Fault("table-locked-2-leases", _lock_table, POSTGRES),
    Fault("long-transaction", _stay_open, POSTGRES),
    Fault("database-read-only", _refuse_writes, POSTGRES),
]
