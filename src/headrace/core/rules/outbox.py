"""The rules of an outbox: which batch is under way, and which relay holds it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.ids import new_id
from headrace.core.outbox.outbox import OUTGOING_BYTES
from headrace.core.rules.producers import OUTBOX
from headrace.core.values.bounds import Count, MomentUs


class OpenBatch(msgspec.Struct, frozen=True, array_like=True):
    """The batch of an outbox that is under way. `count` is the number of its entries; 0: none is under way.

    `epoch` is part of the producer's name. When a store has forgotten this record, a new epoch begins, and
    its numbers do not meet those of the old one."""

    epoch: str
    number: Count = 0
    count: Count = 0
    relay: str = ""
    until_us: MomentUs = 0

    @property
    def producer(self) -> str:
        return f"{OUTBOX}{self.epoch}"

    def is_held(self, relay: str, hold_us: int, now_us: int) -> bool:
        """Whether another relay has the batch. A hold that ends later than it could is from before the clock
        was set back."""
        return self.count > 0 and self.relay != relay and now_us < self.until_us <= now_us + hold_us

    def taken(self, relay: str, until_us: int, sizes: Iterable[int], limit: int) -> OpenBatch:
        """The outbox after a relay has taken the batch under way, or else the next one: the entries of these
        sizes, up to the bounds."""
        if self.count:
            return msgspec.structs.replace(self, relay=relay, until_us=until_us)
        return OpenBatch(self.epoch, self.number + 1, count_within(sizes, limit), relay, until_us)

    def handed_on(self) -> OpenBatch:
        return OpenBatch(self.epoch, self.number)


_decode = msgspec.msgpack.Decoder(OpenBatch).decode


def new_batches() -> OpenBatch:
    """The record of an outbox from which nothing was taken yet."""
    return OpenBatch(new_id())


def stored_batch(data: bytes | None) -> OpenBatch | None:
    """The record of an outbox. None: there is none, or it cannot be read. Then a new epoch begins: the
    messages that were under way are appended once more, which their ids allow."""
    try:
        return None if data is None else _decode(data)
    except DECODE_ERRORS:
        return None


def count_within(sizes: Iterable[int], limit: int) -> int:
    """How many of the first entries make a batch: at least one."""
    count, room = 0, OUTGOING_BYTES
    for size in sizes:
        if count == limit or (count and size > room):
            break
        count += 1
        room -= size
    return count
