"""The unique keys of a stream: finds their owners, takes keys and releases them."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.messages.message import Stream
from headrace.stores.postgres.session.connection import PostgresConnection, Row
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import message_statements
from headrace.stores.sql.change_set import HeldKey
from headrace.stores.sql.key_owners import KeyOwners, KeyRow
from headrace.stores.sql.lanes import RETRYING, RUNNING

from .columns import columns


class LockedKeys(KeyOwners):
    """The keys that one step uses, locked until its commit. One statement at the end writes the keys that the
    step takes."""

    def __init__(
        self,
        transaction: PostgresTransaction,
        stream: Stream,
        number: int,
        keys: list[str],
        rows: Iterable[KeyRow],
    ) -> None:
        super().__init__(rows, stream, number, transaction.now_us)
        self._transaction = transaction
        self._number = number
        self._keys = keys

    @classmethod
    async def lock(
        cls, transaction: PostgresTransaction, stream: Stream, number: int, keys: Iterable[str]
    ) -> LockedKeys:
        """Wait until no other transaction holds one of these keys."""
        wanted = sorted(set(keys))
        rows: list[Row] = []
        if wanted:
            await transaction.change(message_statements.LOCK_KEYS, (number, wanted))
            values = (number, wanted, transaction.now_us)
            rows = await transaction.rows(message_statements.FIND_KEYS, values)
        return cls(transaction, stream, number, wanted, (KeyRow(*row) for row in rows))

    async def lock_waiting(self) -> bool:
        """Lock the owners that wait, so that they can be replaced. False: another transaction has locked one
        of them. To wait for it could be a deadlock: a claim locks a message first, and then its key."""
        waiting = {row.id: key for key, row in self._waiting.items()}
        if not waiting:
            return True
        values = (self._number, list(waiting))
        rows = await self._transaction.rows(message_statements.LOCK_OWNERS, values)
        for id, place, awaited in rows:
            key = waiting[id]
            if place > RETRYING or place == RUNNING:
                del self._waiting[key]
            else:
                self._waiting[key] = self._waiting[key]._replace(place=place, awaited=awaited)
        return len(rows) == len(waiting)

    async def write(self) -> None:
        if self.taken:
            values = (self._number, *columns(self.taken.values()))
            await self._transaction.change(message_statements.TAKE_KEYS, values)
        if len(self.taken) < len(self._keys):
            await self._transaction.change(message_statements.FORGET_FREE_KEYS, (self._number, self._keys))


async def release_keys(transaction: PostgresTransaction, keys: list[HeldKey]) -> None:
    """Release the keys that these messages still hold until they finish or start."""
    if keys:
        await transaction.change(message_statements.RELEASE_KEYS, columns(keys))


async def give_up_keys(transaction: PostgresTransaction, keys: list[HeldKey]) -> None:
    """Release the keys of expired messages, whatever the kind of the key."""
    if keys:
        await transaction.change(message_statements.GIVE_UP_KEYS, columns(keys))


async def owners(
    connection: PostgresConnection, stream: Stream, number: int, keys: list[str], now_us: int
) -> dict[str, str]:
    """The ids of the messages that hold these keys. Free keys are left out."""
    rows = await connection.rows(message_statements.FIND_KEYS, (number, keys, now_us)) if keys else []
    return KeyOwners((KeyRow(*row) for row in rows), stream, number, now_us).owners
