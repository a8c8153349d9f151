"""One write transaction for the verbs: finds and makes streams, and writes what the verbs have changed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.core.messages.message import Stream
from headrace.core.moving.seal import decode_seal
from headrace.core.rules.lease import Lease
from headrace.stores.sql.transaction_state import TransactionState
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import moving_statements, stream_statements, upkeep_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.verbs.control import write_notices

from .change_notice import ChangeNotice

#: In `sealed` of a stream, from this value on: the whole store is sealed. A smaller one: only this part is.
STORE_SEALED: Final = 2


class StreamRow(NamedTuple):
    number: int
    established: int
    queued: int
    scheduled: int
    sealed: int
    held_children: int  # child work was ever appended to it
    held_lines: int  # messages with constraints were ever appended to it
    parked: int


class Transaction(TransactionState):
    """A verb changes the file only through a transaction. A verb may run twice, when another verb made their
    shared transaction fail."""

    def __init__(self, connection: Connection, *, namespace: str, now_us: int, waited_for: bool) -> None:
        self.changes = ChangeNotice()
        super().__init__(self.changes, namespace=namespace, now_us=now_us, waited_for=waited_for)
        self.connection = connection

    def find(self, stream: Stream) -> StreamRow | None:
        """The stream's row. Its counts do not include the changes of this transaction."""
        row = self.connection.row(stream_statements.FIND_STREAM, (self.namespace, stream.kind, stream.name))
        return StreamRow(*row) if row else None

    def stream(self, stream: Stream, *, established: bool = True, relayed: bool = False) -> StreamRow:
        """The stream's row; creates the stream when there is none. Raises `StoreMoved` when the store is
        sealed, unless a relay appends and the store still drains."""
        found = self.find(stream)
        if found is None or found.sealed >= STORE_SEALED:
            self._refuse_if_sealed(relayed=relayed)
        if found is None:
            row = (self.namespace, stream.kind, stream.name, int(established))
            return StreamRow(*self.connection.row(stream_statements.ADD_STREAM, row))
        if established and not found.established:
            self.connection.change(stream_statements.ESTABLISH_STREAM, (found.number,))
        return found

    def _refuse_if_sealed(self, *, relayed: bool) -> None:
        content = self.connection.value(moving_statements.READ_SEAL, (self.namespace,))
        if content is None:
            return
        seal = decode_seal(content)
        if not relayed or seal.stage != "draining":
            raise seal.refusal

    def write_lease(self, stream: int, lease: Lease) -> None:
        row = (lease.us, lease.longer_us, lease.longer_until_us, stream)
        self.connection.change(stream_statements.WRITE_LEASE, row)

    def next_due_us(self, streams: Sequence[int]) -> int | None:
        due_us: int | None = self.connection.value(upkeep_statements.NEXT_DUE, (listed(streams),))
        return due_us

    def finish(self) -> None:
        """Run the last statements before the commit."""
        for stream, differences in self._counts.items():
            if any(differences):
                self.connection.change(stream_statements.ADD_COUNTS, (stream, *differences))
        if self._notices:
            write_notices(self.connection, self.namespace, list(self._notices), self.now_us)
            self.changes.announced = True


def new_number() -> int:
    """A random number, practically unique. It takes six bytes: rows keep their size (stores/sql/lanes.py)."""
    return (1 << 40) + random.getrandbits(46)  # nosec B311 # any will do


class OpenStream(NamedTuple):
    """A stream from which messages are claimed, with its current settings."""

    number: int
    stream: Stream
    lease: Lease
    paused: bool
    held_children: bool
    held_lines: bool


def resolve(connection: Connection, namespace: str, streams: Sequence[Stream]) -> list[OpenStream]:
    """The rows of the streams, in their order. A stream that does not exist yet is left out."""
    wanted = listed(list(streams))
    rows = unlisted(connection.value(stream_statements.RESOLVE_STREAMS, (namespace, wanted)))
    return [
        OpenStream(number, streams[index], Lease.stored(*lease), bool(paused), bool(children), bool(lines))
        for index, number, paused, children, lines, *lease in rows
    ]
