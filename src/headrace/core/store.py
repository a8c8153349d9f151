"""The contract between the engine and a store: everything a store must do, and nothing it may decide.

**One idea.** A message lies in a stream and is claimed from it. A job lies in a queue's stream. An event lies
in its topic's log, and each group of the topic draws it into a stream of its own, where the verbs below carry
it as they carry a job. What only topics have is in `core/topics/topic.py`.

**States and lanes.** A message of a queue is in exactly one place:

    scheduled   waits for its due time (delayed, snoozed, or handed back with a delay)
    retrying    the same, after a failure or crash
    queued      in one of five lanes: `suspect` (it has crashed twice or more), `returned` (handed back, or
                recovered after its first crash), then its priority: `high`, `normal`, `low`; within a lane
                the first ready is the first out
    running     held under a lease
    dead        in the dead letters, with body, state, reason and failure
    ended       succeeded, cancelled or expired, kept as a mark (with its state) for a time to live, or
                forgotten at once

**Child work** (`Message.child`) has the same five lanes of its own, so that a claim which wants none of it
passes it by. The flag belongs to the message, wherever it moves: a retry, a hand-back, a recovery, a
promotion and a replay keep it.

Whatever moves a message to `queued` puts it in the `suspect` lane when its state says so (`State.suspect`),
else in `returned` when it was handed back without delay or its lease ran out, else in the lane of its
priority.

**Atomic.** Each settlement, each append of a batch, each promotion, recovery, cancellation and replay is one
step for each message: another process sees all of it or nothing, whenever a process or the store dies.

**Fenced.** A claim's token belongs to one hand-out. A verb that meets a token which no longer holds the
message refuses it; see `settle` for the one exception, a success.

**Idempotent.** Whatever may be sent again after a lost answer says so: `append` by its batch number,
everything else because the second time finds nothing left to do.

**Clock.** Every time is compared on the store's clock, in microseconds.

**Unique keys** belong to a message id, within a stream. `finished`: released in the step that ends the
message (done, dead, cancelled, expired), and taken over by an append that finds the owner neither waiting
nor running. `started`: released when it is first claimed, or ends before that. `elapsed`: a plain time to
live, which the message's end does not shorten, never taken over. A replay takes the key again (`finished`
only) or answers `duplicate`. A message that expires gives up its key, whatever the kind: when it is settled
as expired, or in the step of the append, firing or replay that finds the owner expired.

**Expiry.** A message expires when no handler has begun with it at its time. While it still waits then, it is
seen as `expired` by `get`, by `wait_for_end` and in a listing of all; no listing of one status has it. It is
over: it is not cancelled any more, and a purge leaves a mark that says expired. The worker that claims it
next, or the step that takes its unique key, ends it for good.

**Cancellation** of a running message is a request. It is announced as an order, answered to every renewal,
and holds for good: retry, snooze, release and recovery of such a message end it as cancelled.

**Waiters.** `wait_for_end` registers the caller, and the step that ends a message wakes those registered.
Nobody polls, and a message that nobody waits for costs nothing.

**Errors.** A store that cannot be reached or cannot write raises `BackendUnavailable`, with `uncertain` when
the request may have been carried out, be it in part, and with `transient` when it may well pass by itself. No
error of a client library leaves a backend, and nothing is lost by one: the caller may repeat the verb. Those
who look, wait and steer do (`engine/app_loop/retrying.py`), so a store does not, and tells soon.

**Schedules** (`core/schedules/schedule_record.py`) belong to a stream and have a name. A store keeps one
record of each, and replaces it by compare-and-set. The same step appends the messages of a schedule that is
fired.

**Parts** (`core/rules/layout.py`) are a capability: `PartitionedStore`. A store knows streams by name. It
does not know which streams are parts of another. The router above it (`engine/streams`) does.

**Where the later verbs go.** Outbox: `Done` carries messages for other streams, written in the step that
settles; `relay(limit)` appends them with derived ids, so that a repeat changes nothing.
Limits by key: a `Limiter` of two verbs, asked by the claim step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Batch, Stream
from headrace.core.messages.outcome import Failure, Settlement, Verdict
from headrace.core.records.answers import (
    Answer,
    CancelAnswer,
    DeadFilter,
    Promoted,
    Reclaimed,
    Renewal,
    ReplayAnswer,
    Wanted,
)
from headrace.core.records.control import ControlMessage, ControlState
from headrace.core.records.findings import Examination
from headrace.core.records.record import Counts, DeadLetter, JobStatus, Page, Record, WorkerInfo
from headrace.core.records.traffic import Counting
from headrace.core.rules.layout import Layout
from headrace.core.schedules.schedule_record import Scheduling
from headrace.core.topics.topic import Topics

#: Claims whose lease ran out this often, counting this time, are dead instead of queued again.
CRASH_LIMIT = 3

#: Bytes of bodies after which a claim takes no more.
CLAIM_BYTES = 4 << 20

#: What the dead letter of such a message says.
CRASHED = Failure("WorkerCrashed", f"its lease ran out, or its process died, {CRASH_LIMIT} times")


#: Marks that the purges of a stream leave at most within the time for which they stay.
PURGED_MARKS = 10_000

#: Microseconds for which those beyond that leave one, where a store does not know who waits for them.
BRIEF_MARK_US = 60 * 1_000_000


class LeaseKeeper(ABC):
    """Extends leases on an event loop of its own, which no handler can block, over a connection of its own.

    It connects when it is first used. It is used and closed on one event loop, whichever made it."""

    @abstractmethod
    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        """Extend each lease to a full one from now, and answer each.

        Fenced: a claim that is no longer held is answered `LOST` and nothing is changed. Raises no count.
        `after_outage`: renewals in the streams of these claims were refused for half a lease or longer; in
        the same step `reclaim` is made to wait there, as its own `after_outage` does.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of the connection. The keeper may be used again and then connects anew."""


class Inspector(ABC):
    """Look-and-steer verbs, for `app.admin` alone; the engine does without them."""

    @abstractmethod
    async def streams(self) -> list[Stream]:
        """Every stream that was ever ensured, joined, arranged or appended to, of every kind."""

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
        """Messages that exist or left a mark, at most `limit` of them; a page may be shorter than asked for
        and still have a cursor.

        Running ones first, then those that are queued, retrying, scheduled, dead and over; of those that are
        queued, retrying, scheduled or dead the latest first, that is the last queued, due or died. One that
        stays as it is is listed once; one that moves on between two pages may be listed twice, but is not
        missed. See `core/records/listing.py`.
        """

    @abstractmethod
    async def holders(self, stream: Stream, wanted: Sequence[Wanted]) -> list[str | None]:
        """For each the id that `append` would answer as its duplicate: its own when that is known, or that of
        the message which holds its unique key; None: no message does. In a topic ids are not looked for.

        Only reads: a user who may only look needs it. An owner that has expired holds no key, and is ended
        when it is claimed."""

    @abstractmethod
    async def workers(self) -> list[WorkerInfo]:
        """Workers that announced themselves lately (see `heartbeat`)."""

    @abstractmethod
    async def pause(self, stream: Stream, *, paused: bool) -> None:
        """Hand out nothing from this stream until it is resumed. Announced as an order; repeatable."""

    @abstractmethod
    async def purge(self, stream: Stream, *, mark_us: int, limit: int, marks: int = PURGED_MARKS) -> int:
        """End at most `limit` queued, scheduled and retrying messages as cancelled, in one step: unique keys
        released, waiters woken. Answers how many; 0: nothing is left. Running and dead ones stay.

        Marks are kept for `mark_us`, but within that time of about so many of the stream alone (`marks`), so
        that a million purged messages do not fill the store for as long. The others leave none, or one for a
        minute; whoever waits for one of them is told of its end all the same."""

    @abstractmethod
    async def dead_letters(
        self, stream: Stream, *, only: DeadFilter, cursor: str | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        """Dead letters, the latest first, with the reason, error, traceback and bytes."""

    @abstractmethod
    async def replay(self, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
        """Queue dead letters again under the same id, priority and body, with a fresh state, and neither an
        expiry nor a cancellation from before. One that takes its key from an expired owner ends that as
        `append` does, with a mark for an hour."""

    @abstractmethod
    async def discard(self, stream: Stream, ids: Sequence[str]) -> int:
        """Forget dead letters for good; answers how many there were."""

    @abstractmethod
    async def run_now(self, stream: Stream, id: str) -> bool:
        """Queue a scheduled or retrying message now, with its counts as they are; False: it is neither."""

    @abstractmethod
    async def rewrite(self, stream: Stream, id: str, body: bytes) -> bool:
        """Replace the body of a scheduled, retrying or dead message; False: it is none of these."""


class Store(Inspector, Scheduling, Topics, Counting, Examination):
    """A store. One instance belongs to one app and one event loop; many instances share one store.

    `appends_at_once` is how many appends to a stream it pays to have under way, each of another producer: one
    where a step writes a disk, which is the cheaper for each message the more there are in it.
    """

    appends_at_once: int = 1

    @property
    @abstractmethod
    def description(self) -> str:
        """The store in a few words for a person, without a password."""

    @abstractmethod
    def for_other_loop(self) -> Store:
        """The same store for another event loop, not opened yet: `open` and `close` of one do not concern the
        other. What was declared of streams holds for both."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, check that the store can do its work, prepare it. May be called again after `close`."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of every connection and thread. Claims that are still held run out by themselves.

        May be called from another event loop than the one that opened the store, when that one is gone.
        """

    @abstractmethod
    async def declare_stream(self, source: Stream, lease_us: int) -> int | None:
        """Make the source claimable and store its lease, which belongs to the stream and holds for all.

        Answers the lease that stood there before when it was another; the change is then announced as an
        order. A lease that is shortened holds for `reclaim` as it was until it would have run out, so that
        whoever holds a message hears of it first. Repeatable.
        """

    @abstractmethod
    async def remove_stream(self, stream: Stream) -> bool:
        """Take a stream out of the store; False: it stays, or there is no such stream. Repeatable.

        A group goes with everything it has drawn, its dead letters too, and those who wait for one of its
        messages are woken. It is remembered as removed: only `join` makes it again. What was ensured or
        paused under the name of a group that was never joined goes as well.

        A queue or topic goes only when it is empty, in the same step: without a message that waits, runs or
        is dead, without an event, a group or a schedule. Its marks may go with it."""

    @abstractmethod
    async def append(self, batch: Batch) -> list[Answer]:
        """Store the messages of a batch, in order, in one step; one answer each.

        A message goes to its lane, or to `scheduled` when it is due in the future. `duplicate` when the id is
        still known (waiting, running, dead, or a mark) or its unique key is held; the answer names the job
        that stands there. An owner of the key that has expired is ended in this step, with a mark for the
        message's `mark_us` and its waiters woken, and the message takes the key. Otherwise `full` when as
        many are queued and scheduled as the limit allows (those retrying do not count), or when the store has
        no memory left for new ones. A repeat of the producer's last batch number changes nothing and gets the
        same answers (remembered for 10 minutes). The lifetime counts from the moment the message could first
        run. Works for streams that nobody ensured yet. A part that is sealed raises `Moved`; see
        `core/rules/layout.py`.
        """

    @abstractmethod
    async def claim(
        self,
        sources: Sequence[Stream],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        wait: float,
    ) -> list[Claim]:
        """Hand out up to `limit` queued messages under the lease of their stream; an empty list after `wait`
        seconds, or sooner when `wake` was called for this consumer.

        Order: at most `suspects` from the suspect lanes, then returned, then high, normal, low over all
        sources; every tenth claim takes the priorities from the bottom, so that none starves. Sources take
        turns within a lane. At most `children` of all these are child work (None: as many as there are). In
        each lane child work and the rest have each their own order and take turns to go first. A claim that
        wants no child work waits as if there were none. Nothing is taken from a paused stream. Releases
        unique keys of kind `started`.
        Bounded in bytes: once it has `CLAIM_BYTES` it takes no more, whatever came before, so that it brings
        little more than that, or one message; that it brings fewer than `limit` does not mean that it found
        no more.
        Nothing is lost when the caller is cancelled or the answer is: what was handed out and not settled is
        offered to the same consumer again, or its lease runs out.
        """

    @abstractmethod
    def wake(self, consumer: str) -> None:
        """Make a waiting `claim` of this consumer return soon; the next one too, if none is waiting now."""

    @abstractmethod
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Write how claims ended; one verdict each, each settlement one atomic step with all that follows
        from it: the lease ends, the message moves or goes, result and mark are kept, the unique key is
        released, waiters are woken.

        Every outcome but `Done` is fenced: `LOST` when the token no longer holds the message. The first
        `Done` of whoever held it counts while the message is queued or running anywhere; one that finds it
        retrying, scheduled, dead or gone is answered `GONE` and writes nothing. The states inside the
        outcomes are stored as they are. A delay of 0 queues at once; a time to live of 0 keeps nothing. A
        lease that ran out holds until `reclaim` takes the message. Repeating a settlement is harmless.

        A store that cannot write one of them for what stands in it raises `RequestRefused` or a `ValueError`.
        Then the others are to be settled apart from it.
        """

    @abstractmethod
    async def report_progress(self, reports: Sequence[Report]) -> None:
        """Keep how far running messages have come, with the time, until they end or are handed out again; the
        last report of a message counts. Fenced: one whose claim is no longer held changes nothing. It need
        not survive the store, and nobody is told. The log in it goes into the state when the lease runs out.
        """

    @abstractmethod
    def lease_keeper(self) -> LeaseKeeper:
        """A new one, for the event loop of another thread. It renews claims of any instance."""

    @abstractmethod
    async def reclaim(
        self, sources: Sequence[Stream], *, limit: int, every_us: int = 0, after_outage: bool = False
    ) -> Reclaimed:
        """Take messages whose lease ran out from workers that are gone, at most `limit` in one step.

        One scan in `every_us` is enough for all workers that serve these sources: whoever asks sooner is told
        that it is another's turn, and nothing is done; a store that looks for next to nothing may look all
        the same. A scan that was begun is carried on without a turn. One that knows which workers are gone
        may look at their streams alone, and at the others by and by.

        `after_outage`: the caller could not reach the store for half a lease or longer. Then nothing is taken
        from these streams for one lease from now, by any process, so that the living renew first. The same
        holds after a restart of the store, and when its clock was set.

        Each counts one crash more and is queued again with a `TrailEntry` in its trail: as returned work
        after its first crash, which any worker with room takes at once, later as a suspect. At `CRASH_LIMIT`
        it goes to the dead letters instead, without running. The scan keeps its place from call to call, so
        that none is starved.
        """

    @abstractmethod
    async def promote(self, sources: Sequence[Stream], *, limit: int) -> Promoted:
        """Queue at most `limit` scheduled and retrying messages that are due, the earliest first."""

    @abstractmethod
    async def prune(self, *, limit: int) -> int:
        """Forget at most `limit` marks, keys, producers and workers whose time has passed; even before that
        nobody sees them. Answers how many; 0: none is left, or the store forgets by itself."""

    @abstractmethod
    async def heartbeat(
        self, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]], *, leaving: bool = False
    ) -> ControlState:
        """Announce a worker (remembered for a minute), and answer the orders of its streams as they stand.
        `readers` are the names under which it claims, each with its streams: the queues have one reader, and
        each group has its own.

        `leaving`: forget the worker and its readers, but nothing that is still held in their names. The
        answer is empty. Repeatable."""

    @abstractmethod
    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        """Have `hear` called, on the event loop, for every order announced from now on by any process; the
        answer ends it. An announcement may be missed when the store is away: then `MissedNotice` is heard
        once it is back, and `heartbeat` and `LeaseKeeper` say how things stand."""

    @abstractmethod
    async def get(self, stream: Stream, id: str) -> Record | None:
        """All that is known of a message; None: nothing."""

    @abstractmethod
    async def wait_for_end(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        """Wait until a message is over and answer its record, with status `unknown` when nothing of it is
        (or was) kept; None after `timeout` seconds. Woken by the step that ends it, in any process."""

    @abstractmethod
    async def cancel(self, stream: Stream, id: str, *, mark_us: int) -> CancelAnswer:
        """End a waiting message as cancelled with a mark for `mark_us`, or have its worker told. One that
        has expired is gone. Repeatable."""


class PartitionedStore(Store):
    """A store whose streams may have parts. Only queues and topics have a layout; the groups of a topic have
    its parts."""

    @abstractmethod
    async def layout(self, stream: Stream) -> Layout:
        """How the stream is laid out; `WHOLE` when nothing is stored."""

    @abstractmethod
    async def swap_layout(self, stream: Stream, expected: Layout, new: Layout) -> Layout:
        """Store `new` if the layout is `expected`; answers what stands then. One step, announced as a
        `LayoutNotice` when something changed. Repeatable: the second time finds what it wanted.

        A topic that was declared, joined or written to keeps `WHOLE`: then nothing changes.

        When `new` is sealed, nothing is appended to this stream from that step on: `append` raises `Moved`,
        except for a batch whose number was taken before, which is answered as before. In a sealed topic
        `declare_topic` and `join` raise `Moved`, too. `tick` and `replay` go on.
        """
