"""The unique keys of a stream: who holds one, taking it, letting go of it."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.message import UniqueKey

from . import queries
from .connection import Connection
from .parcel import listed, unlisted
from .transaction import Transaction

#: The key of a message that is ending or has started: stream, key, and the message's id.
HeldKey = tuple[int, str, str]


class KeyRing:
    """The keys that one step is about. What it takes is written at the end, in one statement."""

    def __init__(self, transaction: Transaction, stream: int, keys: Iterable[str]) -> None:
        self._transaction = transaction
        self._stream = stream
        self._owners = owners(transaction.connection, stream, list(keys), transaction.now_us)
        self._taken: list[tuple[str, str, int | None]] = []

    def owner(self, key: str) -> str | None:
        """The id of the message that holds it."""
        return self._owners.get(key)

    def take(self, unique: UniqueKey, id: str) -> None:
        self._owners[unique.key] = id
        expires_us = self._transaction.now_us + unique.window_us if unique.until == "elapsed" else None
        self._taken.append((unique.key, id, expires_us))

    def write(self) -> None:
        if self._taken:
            self._transaction.connection.change(queries.TAKE_KEYS, (self._stream, listed(self._taken)))


def release_keys(transaction: Transaction, keys: list[HeldKey]) -> None:
    """Let go of those that these messages still hold."""
    if keys:
        transaction.connection.change(queries.RELEASE_KEYS, (listed(keys),))


def owners(connection: Connection, stream: int, keys: list[str], now_us: int) -> dict[str, str]:
    """Which messages hold these keys; those that nobody holds are left out."""
    if not keys:
        return {}
    rows = unlisted(connection.value(queries.FIND_KEYS, (stream, listed(keys))))
    return {
        key: id
        for key, id, expires_us, alive in rows
        if (alive if expires_us is None else expires_us > now_us)
    }
