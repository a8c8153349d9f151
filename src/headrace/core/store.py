"""The contract between the engine and a store: everything a store must do, and nothing it may decide.

**All verbs**, by the class that has them. `headrace.store` exports what they take and answer.

    Store, below                                   open close for_other_loop description declare_stream
                                                   remove_stream append claim wake settle report_progress
                                                   lease_keeper reclaim promote prune heartbeat listen get
                                                   wait_for_end cancel
    LeaseKeeper, below                             renew close
    PartitionedStore, below                        layout swap_layout
    Inspector, core/inspector.py                   streams counts messages holders workers pause purge
                                                   dead_letters oldest_dead replay discard clean release_key
                                                   run_now rewrite
    Topics, core/topics/topic.py                   declare_topic join read keep_topics topics reset
    Scheduling, core/schedules/schedule_record.py  schedules swap_schedules
    Counting, core/records/traffic.py              count_traffic traffic
    Outboxes, core/outbox/outbox.py                take_outgoing hand_on outboxes bury
    Examination, core/records/findings.py          examine (optional)
    Limiting, core/limits/limiting.py              declare_limits set_limit limits
    Recording, core/history/recording.py           record_history history find_history
    Moving, core/moving/moving.py                  seal set_seal set_aside export import_page imported

**One idea.** A message is in a stream and is claimed from it. A job is in the stream of its queue. An event
is in the log of its topic. Each group of the topic draws it into a stream of its own. There the verbs below
handle it as they handle a job.

**States and lanes.** A message of a queue is in exactly one place:

    scheduled   waits for its due time (delayed, snoozed, or handed back with a delay)
    retrying    waits for its due time after a failure or crash
    queued      in one of five lanes: `suspect` (it has crashed twice or more), `returned` (handed back, or
                recovered after its first crash), then its priority: `high`, `normal`, `low`; within a lane
                the first ready is the first out
    running     held under a lease
    dead        in the dead letters, with body, state, reason and failure
    ended       succeeded, cancelled or expired: an end record, with the state, is kept for a time to live,
                or nothing is kept

**Child work** (`Message.child`) has five lanes of its own, so that a claim without child work can leave it
out. The flag belongs to the message: a retry, a hand-back, a recovery, a promotion and a replay keep it.

A verb that moves a message to `queued` puts it in the `suspect` lane when its state says so
(`State.suspect`), else in `returned` when it was handed back without delay or its lease ran out, else in the
lane of its priority.

**Atomic.** Each settlement, each append of a batch, each promotion, recovery, cancellation and replay is one
step for each message: another process sees all of it or nothing, also when a process or the store dies.

**Fenced.** The token of a claim belongs to one hand-out. A verb refuses a token that no longer holds the
message. There is one exception, a success: see `settle`.

**Idempotent.** A verb that may be sent again after a lost answer says so. `append` recognises its batch
number. For all others, the second call finds nothing left to do.

**Clock.** Every time is compared on the store's clock, in microseconds.

**Unique keys** belong to a message id, within a stream. `finished`: the key is released in the step that ends
the message (done, dead, cancelled, expired), and an append takes it over when the owner neither waits nor
runs. `started`: the key is released when the message is first claimed, or ends before that. `elapsed`: the
key has a time to live, which the end of the message does not shorten; it is never taken over. A replay takes
the key again (`finished` only) or answers `duplicate`. A message that expires gives up its key, of any kind:
when it is settled as expired, or in the step of the append, firing or replay that finds the owner expired.

**Replacing** (`Message.on_duplicate`). A message with `replace` has a key of kind `started`. When a message
that waits (queued, parked, scheduled or retrying) holds the key, the new one takes its place in one step:
the waiting message gets everything of the new one, with a fresh state, and keeps its id and its waiters. It
goes to the end of its new lane or line, or waits for its new due time. A claim from before no longer holds
it. When the owner runs or has ended, the new message takes the key, of any kind, and is accepted. A message
that is not `fresh` and has replaced another one leaves an end record of its own id as cancelled, for its
`expired_ttl_us`. So a repeat, after however long, does not replace again.

**Expiry.** A message expires when no handler has begun with it at its expiry time. While it still waits then,
`get`, `wait_for_end` and a listing of all statuses show it as `expired`; a listing of one status does not
have it. It is over: it cannot be cancelled any more, and after a purge its end record says expired. The
worker that claims it next, or the step that takes its unique key, ends it for good.

**Cancellation** of a running message is a request. It is announced as a control message, and every renewal
answers it. It holds for good: retry, snooze, release and recovery of such a message end it as cancelled.

**Waiters.** `wait_for_end` registers the caller, and the step that ends a message wakes the registered
callers. There is no polling, and a message without waiters costs nothing.

**Errors.** A store that cannot be reached or cannot write raises `BackendUnavailable`, with `uncertain` when
the request may have been carried out, be it in part, and with `transient` when the fault may well pass by
itself. A store lets no error of a client library out. An error loses nothing: the caller may repeat the verb.
Callers that read, wait or administer repeat it (`engine/app_loop/retrying.py`). So a store does not repeat,
and reports the error soon.

**Schedules** (`core/schedules/schedule_record.py`) belong to a stream and have a name. A store keeps one
record of each, and replaces it by compare-and-set (`swap_schedules`). The same step appends the messages of a
schedule that is fired.

**Parts** (`core/rules/layout.py`) are a capability: `PartitionedStore`. A store knows streams by name. It
does not know which streams are parts of another. The router above it (`engine/streams`) does.

**Moving** (`core/moving/moving.py`) is a capability, too: everything in the store goes to another store.

**History** (`core/history/recording.py`) is a capability, too: what is kept of jobs that have ended, for
people. A settlement may carry a `record` for it.

**Outboxes** (`core/outbox/outbox.py`) take what a settlement forwards to other streams, in the step that
settles. A relay appends it there, with derived ids, so that a repeat changes nothing.

**Limits, tenants and order** are a capability: `Limiting` (`core/limits/limiting.py`). A message with
constraints waits in a line of its lane. A claim takes it only when each of its limits has a slot and a token
left. A store that is not `Limiting` gets no such messages, and no messages with a `key` in a queue.

**Order.** Of the messages of a queue that have the same `key`, one at a time may be queued in a lane,
running, or waiting for a retry. The others are parked, in the order in which they became ready, and have the
status `queued`. The end of a message, whatever it is, lets in the next one of its key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from headrace.core.inspector import Inspector
from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Batch, Stream
from headrace.core.messages.outcome import Failure, Settlement, Verdict
from headrace.core.outbox.database import UserDatabase
from headrace.core.outbox.outbox import Outboxes
from headrace.core.records.answers import (
    Answer,
    CancelAnswer,
    Promoted,
    Reclaimed,
    Renewal,
)
from headrace.core.records.control import ControlMessage, ControlState
from headrace.core.records.findings import Examination
from headrace.core.records.record import Record, WorkerInfo
from headrace.core.records.traffic import Counting
from headrace.core.rules.layout import Layout
from headrace.core.schedules.schedule_record import Scheduling
from headrace.core.topics.topic import Topics

#: Claims whose lease ran out this often, counting this time, are dead instead of queued again.
CRASH_LIMIT = 3

#: Bytes of bodies after which a claim takes no more.
CLAIM_BYTES = 4 << 20

#: Streams with another crash limit than `CRASH_LIMIT`: none.
NO_CRASH_LIMITS: Mapping[Stream, int] = MappingProxyType({})


def crash_failure(crashes: int) -> Failure:
    """The failure in the dead letter of a message that reached its crash limit."""
    return Failure("WorkerCrashed", f"its lease ran out, or its process died, {crashes} times")


class LeaseKeeper(ABC):
    """Extends leases on an event loop of its own, which no handler can block, over a connection of its own.

    It connects when it is first used. It is used and closed on one event loop, which need not be the loop
    that made it."""

    @abstractmethod
    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        """Extend each lease to a full one from now, and answer each.

        Fenced: for a claim that is no longer held, the answer is `LOST` and nothing changes. Raises no count.
        `after_outage`: renewals in the streams of these claims were refused for half a lease or longer. The
        same step then makes `reclaim` wait there, as its own `after_outage` does.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection. The keeper may be used again and then connects anew."""


class Store(Inspector, Scheduling, Topics, Counting, Outboxes, Examination):
    """A store. One instance belongs to one app and one event loop; many instances share the stored data.

    `appends_at_once` is how many appends to a stream, each of another producer, are worth having under way at
    once. It is 1 where a step writes to a disk: there a larger batch costs less for each message.
    """

    appends_at_once: int = 1

    @property
    @abstractmethod
    def description(self) -> str:
        """The store in a few words for people, without a password."""

    @abstractmethod
    def for_other_loop(self) -> Store:
        """The same store for another event loop, not opened yet. `open` and `close` of one do not affect the
        other. What was declared of streams holds for both."""

    def user_database(self) -> UserDatabase | None:
        """The database of the store, for transactions of users in it; None: there are none."""
        return None

    @abstractmethod
    async def open(self) -> None:
        """Connect, check that the store can do its work, prepare it. May be called again after `close`."""

    @abstractmethod
    async def close(self) -> None:
        """Close every connection and end every thread. The leases of claims that are still held run out.

        May be called from another event loop than the one that opened the store, when that one is gone.
        """

    @abstractmethod
    async def declare_stream(self, stream: Stream, lease_us: int) -> int | None:
        """Make the stream claimable and store its lease, which belongs to the stream and holds for all.

        Answers the lease from before when it was another; the change is then announced by a control message.
        When a lease is shortened, `reclaim` uses the old one until it would have run out, so that the holder
        of a message learns of the change first. Repeatable.
        """

    @abstractmethod
    async def remove_stream(self, stream: Stream) -> bool:
        """Take a stream out of the store; False: it stays, or there is no such stream. Repeatable.

        A group is removed with everything it has drawn, also its dead letters, and waiters for its messages
        are woken. The store remembers that it was removed: only `join` makes it again. What was declared or
        paused under the name of a group that was never joined is removed as well.

        A queue or topic is removed only when it is empty in that step: without a message that waits, runs or
        is dead, without an event, a group or a schedule. Its end records and unique keys are removed with
        it."""

    @abstractmethod
    async def append(self, batch: Batch) -> list[Answer]:
        """Store the messages of a batch, in order, in one step; one answer each.

        A message goes to its lane, or to `scheduled` when it is due in the future. `duplicate` when the id is
        still known (waiting, running, dead, or in an end record) or its unique key is held; the answer names
        the message that has the id or the key. An expired owner of the key is ended in this step, with an end
        record for the message's `expired_ttl_us` and its waiters woken, and the message takes the key.
        `replaced` when the message has replaced the waiting owner of its key, which the answer names.
        Otherwise `full` when as many are queued and scheduled as the limit allows (retrying ones do not
        count), or when the store has no memory left for new ones. A repeat of the producer's last batch
        number changes nothing and gets the same answers (remembered for 10 minutes). A batch with a smaller
        number was overtaken: nothing is stored, and it raises `BackendUnavailable`. The lifetime counts from
        the moment the message could first run. Works for streams that are not declared yet. A sealed part
        raises `Moved`; see `core/rules/layout.py`.
        """

    @abstractmethod
    async def claim(
        self,
        streams: Sequence[Stream],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        constrained: int | None = None,
        wait: float,
    ) -> list[Claim]:
        """Hand out up to `limit` queued messages under the lease of their stream; an empty list after `wait`
        seconds, or sooner when `wake` was called for this consumer.

        Order: at most `suspects` from the suspect lanes, then returned, then high, normal, low over all
        streams. Every tenth claim takes the priorities from the bottom, so that none starves. Streams take
        turns within a lane. At most `children` of all these are child work (None: as many as there are). In
        each lane child work and the rest each have their own order and take turns to go first. A claim
        without child work waits as if there were none. Nothing is taken from a paused stream. Releases unique
        keys of kind `started`.
        At most `constrained` of all these have constraints (None: as many as there are), as far as their
        limits allow (`core/limits/limiting.py`). In each lane they and the others share what is asked for.
        Bounded in bytes: once a claim has `CLAIM_BYTES` it takes no more. So it brings little more than that,
        or one message. Fewer messages than `limit` do not mean that there are no more.
        Nothing is lost when the caller is cancelled or the answer is lost: a message that was handed out and
        not settled is offered to the same consumer again, or its lease runs out.
        """

    @abstractmethod
    def wake(self, consumer: str) -> None:
        """Make a waiting `claim` of this consumer return soon; the next one too, if none is waiting now."""

    @abstractmethod
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Write the outcomes of claims; one verdict each. Each settlement is one atomic step with all that
        follows from it: the lease ends, the message moves or is removed, result and end record are kept, the
        unique key is released, waiters are woken, and what the settlement forwards is in the outbox of the
        stream. A settlement that is not `KEPT` forwards nothing.

        Every outcome but `Done` is fenced: `LOST` when the token no longer holds the message. The first
        `Done` counts, with the token of any hand-out, while the message is queued or running anywhere. A
        `Done` that finds it retrying, scheduled, dead or gone gets the answer `GONE` and writes nothing. The
        states inside the outcomes are stored as they are. A delay of 0 queues at once; a time to live of 0
        keeps nothing. A lease that ran out holds until `reclaim` takes the message. Repeating a settlement is
        harmless.

        A store that cannot write a settlement because of its content raises `RequestRefused` or a
        `ValueError`. Then the caller settles the others apart from it.
        """

    @abstractmethod
    async def report_progress(self, reports: Sequence[Report]) -> None:
        """Keep how far running messages have come, with the time, until they end or are handed out again; the
        last report of a message counts. Fenced: a report whose claim is no longer held changes nothing. It
        need not survive a restart of the store, and is not announced. The log in it goes into the state when
        the lease runs out."""

    @abstractmethod
    def lease_keeper(self) -> LeaseKeeper:
        """A new keeper, for the event loop of another thread. It renews claims of any instance."""

    @abstractmethod
    async def reclaim(
        self,
        streams: Sequence[Stream],
        *,
        limit: int,
        every_us: int = 0,
        after_outage: bool = False,
        crash_limits: Mapping[Stream, int] = NO_CRASH_LIMITS,
    ) -> Reclaimed:
        """Take messages whose lease ran out from workers that are gone, at most `limit` in one step.

        One scan in `every_us` is enough for all workers that serve these streams. A worker that asks sooner
        gets `others_turn`, and nothing is done; a store for which a scan costs next to nothing may scan all
        the same. A scan that has begun goes on without a new turn. A store that knows which workers are gone
        may scan only their streams, and the other streams less often.

        `after_outage`: the caller could not reach the store for half a lease or longer. Then nothing is taken
        from these streams for one lease from now, by any process, so that living workers renew first. The
        same holds after a restart of the store, and when its clock was set.

        Each such message counts one crash more and is queued again with a `TrailEntry` in its trail: after
        its first crash as returned work, which any worker with room takes at once, later as a suspect. At
        `CRASH_LIMIT`, or the limit that `crash_limits` has for its stream, it goes to the dead letters
        instead, without running. The scan keeps its place from call to call, so that none is starved.
        """

    @abstractmethod
    async def promote(self, streams: Sequence[Stream], *, limit: int) -> Promoted:
        """Queue at most `limit` scheduled and retrying messages that are due, the earliest first."""

    @abstractmethod
    async def prune(self, *, limit: int) -> int:
        """Delete at most `limit` end records, keys, producers and workers whose time has passed; until they
        are deleted no verb shows them. Answers how many; 0: none is left, or the store deletes by itself."""

    @abstractmethod
    async def heartbeat(
        self, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]], *, leaving: bool = False
    ) -> ControlState:
        """Register a worker (remembered for a minute), and answer the control state of its streams. `readers`
        are the names under which it claims, each with its streams: the queues have one reader, and each group
        has its own.

        `leaving`: forget the worker and its readers, but no claim that is still held in their names. The
        answer is empty. Repeatable."""

    @abstractmethod
    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        """Call `hear`, on the event loop, for every control message that any process announces from now on;
        the answer is a function that ends this. An announcement may be missed while the store is away. Then
        `hear` gets a `MissedNotice` once the store is back; `heartbeat` and `LeaseKeeper` give the current
        state."""

    @abstractmethod
    async def get(self, stream: Stream, id: str) -> Record | None:
        """All that is known of a message; None: nothing is known."""

    @abstractmethod
    async def wait_for_end(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        """Wait until a message is over and answer its record, with status `unknown` when nothing of it is
        (or was) kept; None after `timeout` seconds. The step that ends the message wakes the caller, in any
        process. When this store is closed meanwhile, it raises `BackendUnavailable`."""

    @abstractmethod
    async def cancel(self, stream: Stream, id: str, *, ttl_us: int) -> CancelAnswer:
        """End a waiting message as cancelled, with an end record for `ttl_us`, or announce the cancellation
        to the worker that runs it. An expired message counts as gone. Repeatable."""


class PartitionedStore(Store):
    """A store whose streams may have parts. Only queues and topics have a layout; the groups of a topic have
    its parts."""

    @abstractmethod
    async def layout(self, stream: Stream) -> Layout:
        """The layout of the stream; `WHOLE` when none is stored."""

    @abstractmethod
    async def swap_layout(self, stream: Stream, expected: Layout, new: Layout) -> Layout:
        """Store `new` if the layout is `expected`; answers the layout that is stored then. One step,
        announced as a `LayoutNotice` when something changed. Repeatable: the second call finds `new`.

        A topic that was declared, joined or written to keeps `WHOLE`: then nothing changes.

        When `new` is sealed, nothing is appended to this stream from that step on: `append` raises `Moved`,
        except for a batch whose number was taken before, which gets the answers from before. In a sealed
        topic `declare_topic` and `join` raise `Moved`, too. `swap_schedules` and `replay` still work.
        """
