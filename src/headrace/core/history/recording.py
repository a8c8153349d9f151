"""The part of a store's contract that concerns history. A store may lack it. Begin with `core/store.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import Stream
from headrace.core.records.record import JobStatus, Page

from .entry import HistoryEntry

#: The most entries that one step deletes in addition to those that it writes.
TRIMMED: Final = 200

#: The most entries that one step of a listing looks at.
SCANNED: Final = 1000


class RingLimits(msgspec.Struct, frozen=True):
    """How much the history of one stream may hold; None: it is not limited."""

    entries: int | None = None
    size: int | None = None


class Recording(ABC):
    """Jobs that have ended, for people to read. Nothing else in a store depends on them: an id or a unique
    key in the history is free.

    A stream has one entry for each id, that of the latest end. `settle` writes the `record` of each
    settlement that is `KEPT`, in the same step. `remove_stream` removes the history with the stream; an empty
    queue that has a history is still empty. A purge and a move of the store leave it as it is. `prune`
    deletes entries whose time has passed; until then no verb shows them.
    """

    @abstractmethod
    async def record_history(
        self, stream: Stream, entries: Sequence[HistoryEntry], limits: RingLimits
    ) -> None:
        """Write entries, and delete the oldest beyond the limits: at most `TRIMMED` more than are written.
        The oldest is the one that ended first. One step. Repeatable."""

    @abstractmethod
    async def history(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[HistoryEntry]:
        """The entries that fit, the latest end first, at most `limit`. One call looks at no more than
        `SCANNED` entries, so a page with a cursor may have few entries, or none."""

    @abstractmethod
    async def find_history(self, stream: Stream, ids: Sequence[str]) -> list[HistoryEntry | None]:
        """The entry of each id; None: there is none."""


def cursor_of(key: tuple[int, str]) -> str:
    """The cursor of a listing that goes on after the entry with this key."""
    return f"{key[0]}:{key[1]}"


#: The key from which a listing begins: greater than that of any entry.
FIRST: Final = (1 << 62, "")


def key_of(cursor: str | None) -> tuple[int, str]:
    """The key after which a listing goes on."""
    if cursor is None:
        return FIRST
    ended_us, _, id = cursor.partition(":")
    if not ended_us.isdecimal():
        raise ConfigurationError(f"{cursor!r} is no cursor of this listing: pass one that a page gave")
    return int(ended_us), id
