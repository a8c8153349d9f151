"""The unique keys of a stream: finds their owners, takes keys and releases them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headrace.core.messages.message import UniqueKey
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import message_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction

from .lanes import RETRYING, has_expired

#: The key of a message that is ending or has started: stream, key, and the message's id.
HeldKey = tuple[int, str, str]


class ExpiredOwner(NamedTuple):
    """A message that holds a key, and has expired while it waits."""

    seq: int
    id: str
    place: int
    priority: int


class StreamKeys:
    """The keys that one step uses. One statement at the end writes the keys that the step takes."""

    def __init__(self, transaction: Transaction, stream: int, keys: Iterable[str]) -> None:
        self._transaction = transaction
        self._stream = stream
        self._owners, self._expired = _owners(transaction.connection, stream, list(keys), transaction.now_us)
        self._taken: list[tuple[str, str, int | None]] = []

    def owner(self, key: str) -> str | None:
        """The id of the message that holds the key."""
        return self._owners.get(key)

    def expired_owner(self, key: str) -> ExpiredOwner | None:
        """The expired message that holds the key. Taking the key must end this message."""
        return self._expired.get(key)

    def take(self, unique: UniqueKey, id: str) -> None:
        self._owners[unique.key] = id
        self._expired.pop(unique.key, None)
        expires_us = self._transaction.now_us + unique.window_us if unique.until == "elapsed" else None
        self._taken.append((unique.key, id, expires_us))

    def write(self) -> None:
        if self._taken:
            self._transaction.connection.change(
                message_statements.TAKE_KEYS, (self._stream, listed(self._taken))
            )


def release_keys(transaction: Transaction, keys: list[HeldKey], *, expired: bool = False) -> None:
    """Release the keys that these messages still hold until they finish or start. Expired messages release
    keys of every kind."""
    if keys:
        transaction.connection.change(message_statements.RELEASE_KEYS, (listed(keys), int(expired)))


def owners(connection: Connection, stream: int, keys: list[str], now_us: int) -> dict[str, str]:
    """The ids of the messages that hold these keys. Free keys are left out."""
    return _owners(connection, stream, keys, now_us)[0]


def _owners(
    connection: Connection, stream: int, keys: list[str], now_us: int
) -> tuple[dict[str, str], dict[str, ExpiredOwner]]:
    """The owners of these keys, and the owners that have expired."""
    owners: dict[str, str] = {}
    expired: dict[str, ExpiredOwner] = {}
    rows = (
        unlisted(connection.value(message_statements.FIND_KEYS, (stream, listed(keys), now_us)))
        if keys
        else []
    )
    for key, id, until_us, own, seq, place, priority, expires_us, state in rows:
        if own and has_expired(place, expires_us, state, now_us):
            expired[key] = ExpiredOwner(seq, id, place, priority)
        elif until_us is not None or (place is not None and place <= RETRYING):
            owners[key] = id
    return owners, expired
