"""The part of a store's contract that shows and administers streams. Begin with `core/store.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from headrace.core.messages.message import Stream
from headrace.core.records.answers import DeadAge, DeadFilter, ReplayAnswer, Wanted
from headrace.core.records.record import Counts, DeadLetter, JobStatus, Page, Record, WorkerInfo

#: The most end records that purges of a stream leave within the time for which such records are kept.
PURGED_END_RECORDS = 10_000

#: Microseconds for which a store keeps the end records beyond `PURGED_END_RECORDS`, if it does not know the
#: waiters.
BRIEF_TTL_US = 60 * 1_000_000


class Inspector(ABC):
    """Verbs that show and administer streams, for `app.admin`. Of the engine, only upkeep uses some."""

    @abstractmethod
    async def streams(self) -> list[Stream]:
        """Every stream, of every kind, that was ever declared, joined, split or appended to."""

    @abstractmethod
    async def counts(self, stream: Stream) -> Counts:
        """How many messages are in each state; the cost does not grow with their number."""

    @abstractmethod
    async def messages(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Record]:
        """Messages that exist or have an end record, at most `limit` of them; a page may be shorter than
        asked for and still have a cursor.

        First running messages, then queued, retrying, scheduled, dead and ended ones. Among queued, retrying,
        scheduled or dead messages the latest comes first: the last that was queued, is due or died. A message
        that does not change is listed once. A message that changes between two pages may be listed twice, but
        is not missed. See `core/records/listing.py`.
        """

    @abstractmethod
    async def holders(self, stream: Stream, wanted: Sequence[Wanted]) -> list[str | None]:
        """For each the id that `append` would answer as its duplicate: its own id when that is known, or the
        id of the message which holds its unique key; None: there is no such message. In a topic ids are not
        looked for.

        Only reads, so that a user with read access can call it. An expired owner holds no key, and is ended
        when it is claimed."""

    @abstractmethod
    async def workers(self) -> list[WorkerInfo]:
        """Workers with a recent heartbeat (see `heartbeat`)."""

    @abstractmethod
    async def pause(self, stream: Stream, *, paused: bool) -> None:
        """Hand out nothing from this stream until it is resumed. Announced as a `PauseNotice`; repeatable."""

    @abstractmethod
    async def purge(
        self, stream: Stream, *, ttl_us: int, limit: int, end_records: int = PURGED_END_RECORDS
    ) -> int:
        """End at most `limit` queued, scheduled and retrying messages as cancelled, in one step: unique keys
        released, waiters woken. Answers how many; 0: nothing is left. Running and dead ones stay.

        End records are kept for `ttl_us`, but within that time only about `end_records` of them for the
        stream, so that a million purged messages do not fill the store for as long. The other messages leave
        no end record, or one for a minute; a caller that waits for one of them still gets its end."""

    @abstractmethod
    async def dead_letters(
        self, stream: Stream, *, only: DeadFilter, cursor: str | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        """Dead letters, the latest first, with reason, error, traceback and bytes."""

    @abstractmethod
    async def oldest_dead(self, stream: Stream, *, limit: int) -> list[DeadAge]:
        """The oldest dead letters, at most `limit`, the oldest first. Only reads."""

    @abstractmethod
    async def replay(self, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
        """Queue dead letters again under the same id, priority and body, with a fresh state. An earlier
        expiry or cancellation is dropped. A replay that takes its key from an expired owner ends the owner as
        `append` does, with an end record for an hour."""

    @abstractmethod
    async def discard(self, stream: Stream, ids: Sequence[str]) -> int:
        """Delete dead letters for good; answers how many there were."""

    @abstractmethod
    async def clean(self, stream: Stream, ids: Sequence[str], *, status: JobStatus, ttl_us: int) -> int:
        """Remove those of these messages of a queue that are in this state, in one step; answers how many.

        Dead letters and end records are deleted. The others end as cancelled, with an end record for
        `ttl_us`: unique keys released, waiters woken. A running message is taken from its worker, whose
        settlement is then refused."""

    @abstractmethod
    async def release_key(self, stream: Stream, key: str) -> bool:
        """Free a unique key of a queue, of any kind, so that the next append takes it. Its holder stays as it
        is. False: the key is free."""

    @abstractmethod
    async def run_now(self, stream: Stream, id: str) -> bool:
        """Queue a scheduled or retrying message now, with its counts as they are; False: it is neither."""

    @abstractmethod
    async def rewrite(self, stream: Stream, id: str, body: bytes) -> bool:
        """Replace the body of a scheduled, retrying or dead message; False: it is none of these."""
