"""Which messages hold unique keys, and which keys a step takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headrace.core.messages.message import Stream, UniqueKey

from .change_set import ChangedMessage
from .lanes import RETRYING, RUNNING


class KeyRow(NamedTuple):
    """A key that has a row, and its last owner. `until_us`: when a key with a window becomes free. `own`: the
    owner was appended with this key. The columns after it are of the owner's message; None: it has none."""

    key: str
    id: str
    until_us: int | None
    own: bool | None
    place: int | None
    priority: int | None
    expired: bool | None = False
    awaited: bool | None = False
    seq: int | None = 0
    constraints: int | None = None
    child: bool | None = False
    order_key: str | None = None


class KeyOwners:
    """The owners of the keys that one step uses. `taken` has the rows of the keys that the step takes: key,
    id, until when."""

    def __init__(self, rows: Iterable[KeyRow], stream: Stream, number: int, now_us: int) -> None:
        self.owners: dict[str, str] = {}
        self.expired: dict[str, ChangedMessage] = {}  # taking the key must end this owner
        self.taken: dict[str, tuple[str, str, int | None]] = {}
        self._now_us = now_us
        self._stream, self._number = stream, number
        self._waiting: dict[str, KeyRow] = {}
        for row in rows:
            key, until_us, place = row.key, row.until_us, row.place
            if until_us is not None and until_us <= now_us:
                continue  # the key is free, whatever became of its last owner
            if row.own and row.expired and place is not None:
                self.expired[key] = self._changed(row, place)
                continue
            if until_us is not None or (place is not None and place <= RETRYING):
                self.owners[key] = row.id
            if row.own and place is not None and place <= RETRYING and place != RUNNING:
                self._waiting[key] = row

    def waiting(self, key: str) -> ChangedMessage | None:
        """The owner of a key, if it waits and was appended with this key."""
        row = self._waiting.get(key)
        return None if row is None or row.place is None else self._changed(row, row.place)

    def _changed(self, row: KeyRow, place: int) -> ChangedMessage:
        return ChangedMessage(
            *(self._stream, self._number, row.id, place, row.priority or 0),
            unique_key=row.key,
            awaited=bool(row.awaited),
            seq=row.seq or 0,
            constraints=row.constraints,
            child=bool(row.child),
            order_key=row.order_key,
        )

    def take(self, unique: UniqueKey, id: str) -> None:
        self.owners[unique.key] = id
        self.expired.pop(unique.key, None)
        self._waiting.pop(unique.key, None)
        expires_us = self._now_us + unique.window_us if unique.until == "elapsed" else None
        self.taken[unique.key] = unique.key, id, expires_us
