"""The tables of an outbox: of the streams of the store, or of a user's own transactions. Both have the same
columns, and a key that says which outbox is meant."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.outbox.outbox import OutgoingBatch, OutgoingEntry
from headrace.core.rules.outbox import OpenBatch, count_within, new_batches
from headrace.stores.postgres.session.connection import Row

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OpenBatch).decode


class Statements(Protocol):
    """A connection in a transaction."""

    def rows(self, sql: str, values: Sequence[object] = ...) -> Awaitable[list[Row]]: ...
    def change(self, sql: str, values: Sequence[object] = ...) -> Awaitable[int]: ...


class TakenBatch(msgspec.Struct, frozen=True):
    """Which relay wants a batch, how large, and for how long."""

    relay: str
    limit: int
    hold_us: int
    now_us: int


class OutboxTable:
    """The statements for one pair of tables. `key` is the column that names the outbox."""

    def __init__(self, table: str, batches: str, key: str) -> None:
        rows = f"FROM headrace.{table} WHERE {key} = $1"
        found = "WHERE seq = ANY ($1::bigint[])"
        # Constants only:
        self.sizes = f"SELECT seq, length(content) {rows} AND batch IS NULL ORDER BY seq LIMIT $2"  # nosec B608
        self.mark = f"UPDATE headrace.{table} SET batch = $2 {found}"  # nosec B608
        self.read = f"SELECT seq, at_us, content {rows} AND batch = $2 ORDER BY seq LIMIT $3"  # nosec B608
        self.forget = f"DELETE FROM headrace.{table} {found}"  # nosec B608
        self.keep = f"UPDATE headrace.{table} SET batch = NULL {found}"  # nosec B608
        self.is_any = f"SELECT EXISTS (SELECT {rows})"  # nosec B608
        self.ensure_batch = f"INSERT INTO headrace.{batches} VALUES ($1, $2) ON CONFLICT DO NOTHING"  # nosec B608
        self.lock_batch = f"SELECT batch FROM headrace.{batches} WHERE {key} = $1 FOR UPDATE"  # nosec B608
        self.write_batch = f"UPDATE headrace.{batches} SET batch = $2 WHERE {key} = $1"  # nosec B608

    async def take(
        self, statements: Statements, key: object, origin: Stream | None, wanted: TakenBatch
    ) -> OutgoingBatch | None:
        """The batch under way, or the next one, held by this relay."""
        before = await self._locked(statements, key)
        if before.is_held(wanted.relay, wanted.hold_us, wanted.now_us):
            return None
        if not before.count:
            found = await statements.rows(self.sizes, (key, wanted.limit))
            if not found:
                return None
            count = count_within((size for _, size in found), wanted.limit)
            await statements.change(self.mark, ([seq for seq, _ in found[:count]], before.number + 1))
        sizes = [1] * (before.count or count)
        taken = before.taken(wanted.relay, wanted.now_us + wanted.hold_us, sizes, wanted.limit)
        await statements.change(self.write_batch, (key, _encode(taken)))
        rows = await statements.rows(self.read, (key, taken.number, taken.count))
        entries = [OutgoingEntry(content, max(0, wanted.now_us - at_us)) for _, at_us, content in rows]
        return OutgoingBatch(origin, taken.producer, taken.number, tuple(entries))

    async def hand_on(
        self, statements: Statements, key: object, batch: OutgoingBatch, kept: frozenset[int]
    ) -> None:
        under_way = await self._locked(statements, key)
        if (under_way.producer, under_way.number) != (batch.producer, batch.number) or not under_way.count:
            return
        rows = await statements.rows(self.read, (key, under_way.number, under_way.count))
        stay = [seq for index, (seq, _, _) in enumerate(rows) if index in kept]
        await statements.change(self.forget, ([seq for seq, _, _ in rows if seq not in stay],))
        await statements.change(self.keep, (stay,))
        await statements.change(self.write_batch, (key, _encode(under_way.handed_on())))

    async def _locked(self, statements: Statements, key: object) -> OpenBatch:
        rows = await statements.rows(self.lock_batch, (key,))
        if not rows:
            await statements.change(self.ensure_batch, (key, _encode(new_batches())))
            rows = await statements.rows(self.lock_batch, (key,))
        return _decode(rows[0][0])


OF_STREAMS: Final = OutboxTable("outgoing", "outboxes", "stream")
OF_USERS: Final = OutboxTable("headrace_outbox", "headrace_outbox_batches", "namespace")
