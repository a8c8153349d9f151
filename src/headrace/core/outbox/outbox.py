"""The part of a store's contract by which messages leave a stream for another one. Begin with
`core/store.py`.

**An outbox** belongs to a stream. `settle` writes what a settlement forwards into the outbox of its stream,
in the same step. On a cluster the outbox has the hash tag of its stream. The content is bytes to the store.

**A relay** takes a batch from an outbox, appends its messages to their streams, and hands the batch on: then
it is gone from the outbox. A batch that was taken stays the same batch, with the same number, until it is
handed on, whichever relay takes it. Relays append under the producer and the number of the batch. So a
batch that two relays append, or one relay twice, is stored once (see `append`), and no token is needed: a
relay that was overtaken finds nothing left to do. Messages are appended in the order of their outbox.

The outbox of a user's own database (`stores/outbox`) gives the same batches to the same relay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from headrace.core.messages.message import Message, Stream
from headrace.core.messages.outcome import DeadReason, Failure

#: Bytes of contents after which a batch takes no more.
OUTGOING_BYTES = 1 << 20


class OutgoingEntry(msgspec.Struct, frozen=True, gc=False):
    """One message in an outbox: its content, and how long it has been there, on the clock of the outbox."""

    content: bytes
    waited_us: int


class OutgoingBatch(msgspec.Struct, frozen=True):
    """The first entries of an outbox. `origin` is the stream of the outbox; None: it is in a database of the
    user. Batches are numbered upwards within `producer`. No two outboxes have the same producer: the target
    takes a number that it knows for a repeat."""

    origin: Stream | None
    producer: str
    number: int
    entries: tuple[OutgoingEntry, ...]


class OutboxRecord(msgspec.Struct, frozen=True):
    """How many messages wait in an outbox, and for how long the first one has waited."""

    origin: Stream | None
    waiting: int
    oldest_us: int


class Refusal(msgspec.Struct, frozen=True):
    """A message that was never queued, and why not."""

    message: Message
    reason: DeadReason
    failure: Failure


class Outboxes(ABC):
    """Verbs about the outboxes of streams."""

    @abstractmethod
    async def take_outgoing(
        self, streams: Sequence[Stream], *, relay: str, limit: int, hold_us: int
    ) -> list[OutgoingBatch]:
        """The next batch of each outbox that has one: at most `limit` entries, and no more once they have
        `OUTGOING_BYTES`.

        The relay holds the batch for `hold_us`: until then other relays do not get it, and it gets the same
        batch again. A relay that is gone delays its batches by that time at most, whatever the clock does."""

    @abstractmethod
    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        """Remove the entries of a batch from its outbox, except those at the indices `kept`: these come first
        in the next batch. Nothing happens when the batch was handed on before. Repeatable."""

    @abstractmethod
    async def outboxes(self) -> list[OutboxRecord]:
        """Every outbox that is not empty. Only reads."""

    @abstractmethod
    async def bury(self, stream: Stream, refusals: Sequence[Refusal]) -> None:
        """Put messages that were never queued into the dead letters of a queue or group. A message whose id
        is known there already is left out. Repeatable. A replay queues it as any other dead letter."""
