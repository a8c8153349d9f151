"""The readers of a worker, with one interface for readers of queues, groups and fan-outs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.engine.running.finished import FinishedRun

from .subscription_limit import SubscriptionLimit

#: Streams whose reader is remembered.
MOST_STREAMS = 1000


class WorkerReader(ABC):
    """Reads messages from streams into the slots, and decides which outcomes are written after their runs."""

    #: The name under which it claims.
    consumer: str
    #: The streams that it claims from.
    streams: Sequence[Stream] = ()
    #: How many of its messages may be in flight; None: as many as there are slots.
    limit: SubscriptionLimit | None = None
    #: Whether claims that wait for a slot may be handed back, for other workers.
    hands_back: bool = True
    #: Whether it has no room, or no child process, and waits to be woken.
    due_for_more: bool = False
    #: When the store last answered, or was not asked because every slot is taken. Seconds since 1970.
    polled_at: float = 0.0
    #: Messages that ended without a settlement.
    handled: int = 0

    @property
    def caught_up(self) -> bool:
        """Whether this reader has no waiting messages that the store does not count."""
        return True

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None:
        """Read no more."""

    @abstractmethod
    def wake(self) -> None:
        """End a claim or a read that waits: there may be messages for it now."""

    @abstractmethod
    def room_made(self) -> None:
        """There may be room for more. Called only while the reader is due for more."""

    def ended(self, finished: list[FinishedRun]) -> list[FinishedRun]:
        """Slots have finished these runs. Returns those whose outcomes must be written to the store now."""
        return finished

    def written(self, finished: FinishedRun) -> None:  # noqa: B027 - only a reader with a limit counts
        """The store has answered to a settlement."""

    def lost(self) -> None:  # noqa: B027 - as above
        """The lease of a claim was lost before a handler began."""


class WorkerReaders:
    """All readers of a worker. Each is registered with the streams that it reads."""

    def __init__(self) -> None:
        self.limited: bool = False  # whether a reader has a limit, and must get every settlement
        self._readers: list[WorkerReader] = []
        self._only: WorkerReader | None = None  # the reader, if there is only one
        self._by_stream: dict[Stream, WorkerReader] = {}
        self._known: dict[int, tuple[Stream, WorkerReader | None]] = {}

    def __iter__(self) -> Iterator[WorkerReader]:
        return iter(self._readers)

    def add(self, reader: WorkerReader, streams: Iterable[Stream]) -> None:
        """This reader claims from these streams. A reader may be added again with more of them."""
        if reader not in self._readers:
            self._readers.append(reader)
        self._only = reader if len(self._readers) == 1 else None
        self.limited = self.limited or reader.limit is not None
        self._by_stream.update(dict.fromkeys(streams, reader))
        self._known.clear()

    def of(self, claim: Claim) -> WorkerReader | None:
        """The reader of a claim. Claims of a stream share one stream object, and a lookup by identity is
        faster than a hash."""
        stream = claim.stream
        found = self._known.get(id(stream))
        if found is None or found[0] is not stream:
            if len(self._known) >= MOST_STREAMS:
                self._known.clear()
            found = self._known[id(stream)] = stream, self._by_stream.get(claim.whole)
        return found[1]

    def split(self, finished: list[FinishedRun]) -> Iterable[tuple[WorkerReader | None, list[FinishedRun]]]:
        """The finished runs, grouped by their readers, in order."""
        if self._only is not None:
            return ((self._only, finished),)
        return [(reader, list(ended)) for reader, ended in groupby(finished, self._reader_of)]

    @property
    def polled_at(self) -> float:
        """When a reader last got an answer, in seconds since 1970."""
        return max((reader.polled_at for reader in self._readers), default=0.0)

    @property
    def handled(self) -> int:
        """Messages that ended without a settlement."""
        return sum(reader.handled for reader in self._readers)

    def room(self) -> None:
        """A run ended, an outcome was written, or a child process is free: there may be room for more."""
        for reader in self._readers:
            if reader.due_for_more:
                reader.room_made()

    def look_again(self) -> None:
        """Wake readers that wait: there may be messages for them."""
        for reader in self._readers:
            reader.wake()

    def may_be_handed_back(self, claim: Claim) -> bool:
        reader = self.of(claim)
        return reader is None or reader.hands_back

    def _reader_of(self, finished: FinishedRun) -> WorkerReader | None:
        return self.of(finished.claim)
