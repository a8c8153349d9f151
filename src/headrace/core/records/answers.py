"""What the verbs of a store take as filters and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

import msgspec

from headrace.core.messages.message import Message, Stream
from headrace.core.messages.outcome import DeadReason

from .record import JobStatus


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What `append` answers for one message: taken; already there under `id`; it replaced the waiting message
    `id`; or refused as full, because the stream's limit is reached or, with `why`, because the store has no
    room left at all."""

    id: str
    verdict: Literal["accepted", "duplicate", "replaced", "full"] = "accepted"
    why: str = ""

    @property
    def known(self) -> bool:
        """Whether the message `id` was there before."""
        return self.verdict in ("duplicate", "replaced")


def is_refused(message: Message, answer: Answer) -> bool:
    """Whether a duplicate is an error for this message. A fresh message that is known under its own id was
    stored by an earlier try, whose answer was lost."""
    return (
        message.on_duplicate == "raise"
        and answer.verdict == "duplicate"
        and not (message.fresh and answer.id == message.id)
    )


class Promoted(msgspec.Struct, frozen=True):
    """How many messages became ready, and microseconds until the next is due (None: nothing is scheduled).
    `by_stream` has that time for each stream in which something is scheduled, if the store must be asked for
    each stream; else it is None. `limits` is then the number of limits whose tokens were due. `promotions`
    has for each stream, where the store knows it, how many promotions there were."""

    count: int
    next_in_us: int | None
    by_stream: Mapping[Stream, int] | None = None
    limits: int = 0
    promotions: Mapping[Stream, int] | None = None


class Recovery(msgspec.Struct, frozen=True):
    """A message whose lease ran out: queued again, dead at the crash limit, or ended by a cancellation."""

    stream: Stream
    id: str
    task: str
    worker: str
    crashes: int
    status: JobStatus


class Reclaimed(msgspec.Struct, frozen=True):
    """What one step of `reclaim` found.

    `more`: the scan is not complete, call again. `others_turn`: nothing was done, because another worker
    scans. `stepped_us`: by how much the store's clock was set since the last call of this process.
    """

    recovered: tuple[Recovery, ...] = ()
    more: bool = False
    others_turn: bool = False
    stepped_us: int = 0


class Renewal(StrEnum):
    """The answer of a renewal for one claim."""

    KEPT = "kept"
    LOST = "lost"
    UNKNOWN = "unknown"  # a part of the store could not be asked: nothing is assumed, try again soon
    CANCELLED = "cancelled"  # still held, but its cancellation was asked for


class CancelAnswer(StrEnum):
    """What `cancel` did."""

    REMOVED = "removed"  # it was waiting or scheduled and has ended as cancelled
    REQUESTED = "requested"  # it is running; the request is announced to its worker
    GONE = "gone"  # it is over, or was never there


class ReplayAnswer(StrEnum):
    """What `replay` did with one dead letter."""

    REPLAYED = "replayed"
    DUPLICATE = "duplicate"  # another message holds its unique key by now; it stays dead
    GONE = "gone"  # there is no such dead letter


class DeadFilter(msgspec.Struct, frozen=True):
    """Which dead letters are meant; None: any."""

    task: str | None = None
    reason: DeadReason | None = None

    def fits(self, task: str, reason: str | None) -> bool:
        return self.task in (None, task) and self.reason in (None, reason)


class Wanted(msgspec.Struct, frozen=True):
    """The id and the unique key that a message wants to take; empty: none."""

    id: str = ""
    key: str = ""

    @classmethod
    def by(cls, message: Message) -> Wanted:
        return cls(message.id, message.unique.key if message.unique else "")


class DeadAge(NamedTuple):
    """A dead letter, and how long ago it died, on the store's clock."""

    id: str
    age_us: int
