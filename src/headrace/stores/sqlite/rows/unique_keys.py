"""The unique keys of a stream: finds their owners, takes keys and releases them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.core.messages.message import Stream
from headrace.stores.sql.change_set import HeldKey
from headrace.stores.sql.key_owners import KeyOwners, KeyRow
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import message_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction

from .expiry import has_expired


class StreamKeys(KeyOwners):
    """The keys that one step uses. One statement at the end writes the keys that the step takes."""

    def __init__(self, transaction: Transaction, stream: Stream, number: int, keys: Iterable[str]) -> None:
        now_us = transaction.now_us
        super().__init__(_rows(transaction.connection, number, list(keys), now_us), stream, number, now_us)
        self._transaction = transaction
        self._number = number

    def write(self) -> None:
        if self.taken:
            rows = (self._number, listed(self.taken.values()))
            self._transaction.connection.change(message_statements.TAKE_KEYS, rows)


def release_keys(transaction: Transaction, keys: list[HeldKey], *, expired: bool = False) -> None:
    """Release the keys that these messages still hold until they finish or start. Expired messages release
    keys of every kind."""
    if keys:
        transaction.connection.change(message_statements.RELEASE_KEYS, (listed(keys), int(expired)))


def owners(
    connection: Connection, stream: Stream, number: int, keys: list[str], now_us: int
) -> dict[str, str]:
    """The ids of the messages that hold these keys. Free keys are left out."""
    return KeyOwners(_rows(connection, number, keys, now_us), stream, number, now_us).owners


def _rows(connection: Connection, stream: int, keys: list[str], now_us: int) -> Iterator[KeyRow]:
    found = (stream, listed(keys), now_us)
    rows = unlisted(connection.value(message_statements.FIND_KEYS, found)) if keys else []
    for key, id, until_us, own, seq, place, priority, expires_us, state, *more in rows:
        expired = has_expired(place, expires_us, state, now_us)
        yield KeyRow(key, id, until_us, own, place, priority, expired, False, seq, *more)
