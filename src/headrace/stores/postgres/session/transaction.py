"""One write transaction for the verbs: finds and makes streams, and writes what the verbs have changed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headrace.core.messages.message import Stream
from headrace.core.rules.lease import Lease
from headrace.stores.postgres.statements import limit_statements, stream_statements
from headrace.stores.sql.transaction_state import TransactionState
from headrace.stores.sql.wake_ups import WakeUps

from .connection import PostgresConnection, Row
from .notifications import notice_of

#: Longer than a transaction takes to commit; also in schema/02-functions.sql.
SOON_US: Final = 1_000_000


class TryAgain(Exception):
    """Another transaction got in between: run the verb again, in a new transaction."""


class PostgresTransaction(TransactionState):
    """A verb changes the tables only through a transaction. A verb may run twice, after a deadlock."""

    def __init__(
        self,
        connection: PostgresConnection,
        *,
        namespace: str,
        channel: str,
        now_us: int,
        offset_us: int = 0,
        has_lines: bool = False,
    ) -> None:
        self.wake_ups = WakeUps()
        super().__init__(self.wake_ups, namespace=namespace, now_us=now_us)
        self._offset_us = offset_us
        self.has_lines = has_lines  # it holds the lock of lines
        self.rows = connection.rows
        self.change = connection.change
        self._channel = channel

    async def row(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        rows = await self.rows(sql, values)
        return rows[0] if rows else None

    async def value(self, sql: str, values: Sequence[object] = ()) -> Any:
        rows = await self.rows(sql, values)
        return rows[0][0] if rows else None

    async def find(self, stream: Stream) -> int | None:
        """The stream's number; None: there is no such stream."""
        found: int | None = await self.value(
            stream_statements.FIND, (self.namespace, stream.kind, stream.name)
        )
        return found

    async def find_with_lines(self, stream: Stream) -> int | None:
        """Finds the stream's number as `find` does, and locks its lines if it has some."""
        row = await self.row(stream_statements.FIND_WITH_LINES, (self.namespace, stream.kind, stream.name))
        if row is not None and row[1]:
            await self.lock_lines()
        return row[0] if row else None

    async def lock_lines(self) -> None:
        """Keep other transactions from changing lines and budgets until the commit. A step does this before
        it locks messages or groups, so that two steps never wait for each other."""
        if not self.has_lines:
            self.now_us = await self.value(limit_statements.LOCK, (self.namespace, self._offset_us))
            self.has_lines = True

    async def stream(self, stream: Stream, *, established: bool = True, draining: bool = False) -> int:
        """The stream's number; makes the stream when there is none. It is not removed before the commit.
        Raises `StoreMoved` when the store is sealed. `draining`: the step goes on while the store drains."""
        name = (self.namespace, stream.kind, stream.name)
        if draining:
            open_draining: int = await self.value(stream_statements.OPEN_DRAINING, name)
            return open_draining
        number: int = await self.value(stream_statements.OPEN, (*name, established))
        return number

    async def next_due_us(self, streams: Sequence[int]) -> int | None:
        due_us: int | None = await self.value(stream_statements.NEXT_DUE, (list(streams),))
        return due_us

    def announce_if_due_sooner(self, stream: Stream, before_us: int | None, due_us: int) -> None:
        """What is due soon may be promoted in this moment, by a step that does not see this transaction: then
        no worker would look again in time. So it does not count."""
        soon = before_us is not None and before_us <= self.now_us + SOON_US
        super().announce_if_due_sooner(stream, None if soon else before_us, due_us)

    async def finish(self) -> None:
        """Run the last statements before the commit."""
        changed = {stream: counts for stream, counts in self._counts.items() if any(counts)}
        if changed:
            columns = [list(column) for column in zip(*changed.values(), strict=True)]
            await self.rows(stream_statements.ADD_COUNTS, (list(changed), *columns))
        if self._notices:
            await self.rows("SELECT pg_notify($1, $2)", (self._channel, notice_of(list(self._notices))))


def new_number() -> int:
    """A random number, practically unique: the fencing token of a claim."""
    return random.getrandbits(62) + 1  # nosec B311 # any will do


class ResolvedStream(NamedTuple):
    """A stream with its number and its current lease."""

    number: int
    stream: Stream
    lease: Lease


async def resolve(
    connection: PostgresConnection | PostgresTransaction, namespace: str, streams: Sequence[Stream]
) -> list[ResolvedStream]:
    """The rows of these streams, in their order. A stream that does not exist yet is left out."""
    kinds, names = [stream.kind for stream in streams], [stream.name for stream in streams]
    rows = await connection.rows(stream_statements.RESOLVE, (namespace, kinds, names))
    return [
        ResolvedStream(number, streams[index - 1], Lease.stored(*lease)) for index, number, *lease in rows
    ]
