"""One write transaction for the verbs: gives the time, collects changed counts, and collects what waiting
callers must learn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlMessage, DueNotice
from headrace.core.rules.lease import Lease
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.rows.lanes import (
    CHILD,
    DEAD,
    LOWEST,
    PARKED,
    RETRYING,
    RUNNING,
    SCHEDULED,
    SUSPECT,
)
from headrace.stores.sqlite.statements import stream_statements, upkeep_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.verbs.control import write_notices

from .change_notice import ChangeNotice

#: The count of the stream that includes a message, for each place. End records are not counted.
_COUNTED: Final = {
    **dict.fromkeys(range(SUSPECT, LOWEST + 1), 0),
    **dict.fromkeys(range(SUSPECT - CHILD, LOWEST + 1 - CHILD), 0),
    RUNNING: 1,
    SCHEDULED: 2,
    RETRYING: 3,
    DEAD: 4,
    PARKED: 5,
}


class StreamRow(NamedTuple):
    number: int
    established: int
    queued: int
    scheduled: int
    sealed: int
    held_children: int  # child work was ever appended to it


class Transaction:
    """A verb changes the file only through a transaction. A verb may run twice, when another verb made their
    shared transaction fail. So a verb must change nothing else."""

    def __init__(self, connection: Connection, *, namespace: str, now_us: int, waited_for: bool) -> None:
        self.connection = connection
        self.namespace = namespace
        self.now_us = now_us
        self.waited_for = waited_for  # whether a caller in this process waits for the end of a message
        self.changes = ChangeNotice()
        self._counts: dict[int, list[int]] = {}
        self._notices: list[ControlMessage] = []

    def find(self, stream: Stream) -> StreamRow | None:
        """The stream's row. Its counts do not include the changes of this transaction."""
        row = self.connection.row(stream_statements.FIND_STREAM, (self.namespace, stream.kind, stream.name))
        return StreamRow(*row) if row else None

    def stream(self, stream: Stream, *, established: bool = True) -> StreamRow:
        """The stream's row; creates the stream when there is none."""
        found = self.find(stream)
        if found is None:
            row = (self.namespace, stream.kind, stream.name, int(established))
            return StreamRow(*self.connection.row(stream_statements.ADD_STREAM, row))
        if established and not found.established:
            self.connection.change(stream_statements.ESTABLISH_STREAM, (found.number,))
        return found

    def write_lease(self, stream: int, lease: Lease) -> None:
        row = (lease.us, lease.longer_us, lease.longer_until_us, stream)
        self.connection.change(stream_statements.WRITE_LEASE, row)

    def count(self, stream: int, place: int, difference: int) -> None:
        """Add a difference to the count for this place of the stream."""
        index = _COUNTED.get(place)
        if index is not None:
            self._counts.setdefault(stream, [0, 0, 0, 0, 0, 0])[index] += difference

    def counted(self, stream: int, place: int) -> int:
        """How much this transaction has changed a count so far."""
        changes = self._counts.get(stream)
        return changes[_COUNTED[place]] if changes else 0

    def forget_counts(self, stream: int) -> None:
        """Drop the differences of a stream that was emptied."""
        self._counts.pop(stream, None)

    def ended(self, stream: Stream, id: str) -> None:
        if self.waited_for:
            self.changes.ended.add((stream, id))

    def announce(self, notice: ControlMessage) -> None:
        self._notices.append(notice)
        self.changes.announced = True

    def next_due_us(self, streams: Sequence[int]) -> int | None:
        due_us: int | None = self.connection.value(upkeep_statements.NEXT_DUE, (listed(streams),))
        return due_us

    def announce_if_due_sooner(self, stream: Stream, before_us: int | None, due_us: int) -> None:
        if before_us is None or due_us < before_us:
            self.announce(DueNotice(stream))

    def finish(self) -> None:
        """Run the last statements before the commit."""
        for stream, differences in self._counts.items():
            if any(differences):
                self.connection.change(stream_statements.ADD_COUNTS, (stream, *differences))
        if self._notices:
            write_notices(self.connection, self.namespace, self._notices, self.now_us)


def new_number() -> int:
    """A random number, practically unique. It takes six bytes: rows keep their size (rows/lanes.py)."""
    return (1 << 40) + random.getrandbits(46)  # nosec B311 # any will do


class OpenStream(NamedTuple):
    """A stream from which messages are claimed, with its current settings."""

    number: int
    stream: Stream
    lease: Lease
    paused: bool
    held_children: bool


def resolve(connection: Connection, namespace: str, streams: Sequence[Stream]) -> list[OpenStream]:
    """The rows of the streams, in their order. A stream that does not exist yet is left out."""
    wanted = listed(list(streams))
    rows = unlisted(connection.value(stream_statements.RESOLVE_STREAMS, (namespace, wanted)))
    return [
        OpenStream(number, streams[index], Lease.stored(*lease), bool(paused), bool(held_children))
        for index, number, paused, held_children, *lease in rows
    ]
