"""The memory store of a test: it remembers appended and dead messages, and reports each settlement."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import Dead, Done, Settlement, Verdict
from headrace.core.messages.outgoing import Outgoing
from headrace.core.outbox.database import Ask, Recognition, UserDatabase
from headrace.core.records.answers import Answer
from headrace.core.records.control import DueNotice, ScheduleNotice
from headrace.core.records.record import JobStatus, Record
from headrace.core.rules.layout import Layout
from headrace.core.runtime.clock import TimeSource
from headrace.core.schedules.schedule_record import ScheduleSwap, Swapped
from headrace.core.topics.topic import BEGINNING, NEW, Reading, Start
from headrace.engine.declared.subscription import Subscription
from headrace.engine.streams import StreamRouter
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore, RegisteredWaiter
from headrace.stores.memory.waiter import Waiter

T = TypeVar("T")


class Appended(msgspec.Struct, frozen=True):
    """A message that the store took, and when it was due at that moment (0: at once)."""

    stream: Stream
    message: Message
    due_us: int

    def is_of(self, stream: Stream, id: str) -> bool:
        return self.stream == stream and self.message.id == id


class Death(msgspec.Struct, frozen=True):
    """A job that went to the dead letters."""

    stream: Stream
    id: str
    task: str
    outcome: Dead


class KitStore(MemoryStore):
    def __init__(self, clock: TimeSource, subscriptions: Sequence[Subscription]) -> None:
        super().__init__(SharedState(), name="test", clock=clock)
        self._subscriptions = subscriptions
        self._seen: dict[Stream, int] = {}  # up to where the handlers of fan-outs have read
        self.appended: list[Appended] = []
        self.deaths: list[Death] = []
        self._succeeded: set[tuple[Stream, str]] = set()
        self._waiters: set[Waiter[None]] = set()

    async def append(self, batch: Batch) -> list[Answer]:
        if batch.stream.kind == "topic":
            await self._join_all(batch.stream)
        answers = await super().append(batch)
        for message, answer in zip(batch.messages, answers, strict=True):
            if answer.verdict == "replaced":
                message = msgspec.structs.replace(message, id=answer.id)
                self.appended = [each for each in self.appended if not each.is_of(batch.stream, answer.id)]
            if answer.verdict in ("accepted", "replaced"):
                self._succeeded.discard((batch.stream, message.id))
                record = await self.get(batch.stream, message.id)
                self.appended.append(Appended(batch.stream, message, record.due_us if record else 0))
        return answers

    def user_database(self) -> KitDatabase:
        return KitDatabase(self)

    async def _join_all(self, topic: Stream) -> None:
        """Join all groups before the first event: a test publishes events first and handles them later."""
        for each in self._subscriptions:
            if not each.fan_out and each.matches(topic.name):
                start = each.start if each.start.at == "new" else BEGINNING
                await self.join(each.stream(topic.name), start, ordered=each.ordered)

    async def read(
        self, topic: Stream, after: int | Start, *, consumer: str, limit: int, wait: float
    ) -> Reading:
        # A test publishes before a worker runs, so a fan-out goes on where that of the last worker ended.
        after = self._seen.get(topic, 0) if after == NEW else after
        return await super().read(topic, after, consumer=consumer, limit=limit, wait=wait)

    def unseen(self) -> list[Stream]:
        """Topics with events that no fan-out has read."""
        with self._lock:
            return [
                topic.stream
                for topic in self._store.topics(None)
                if topic.log.last > self._seen.get(topic.stream, 0)
                and any(each.fan_out and each.matches(topic.stream.name) for each in self._subscriptions)
            ]

    def last_of(self, topic: Stream) -> int:
        """The number of the last event of a topic."""
        with self._lock:
            return self._store.topic(topic).log.last

    def saw(self, topic: Stream, number: int) -> None:
        """Note that all fan-outs are done with the events of a topic up to this number."""
        self._seen[topic] = number

    async def swap_schedules(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        fired = [(swap, message) for swap in swaps for message in swap.messages]
        fresh = [each for each in fired if await self.get(each[0].stream, each[1].id) is None]
        answers = await super().swap_schedules(swaps)
        for swap, message in fresh:  # a message of a refused swap is not found
            record = await self.get(swap.stream, message.id)
            if record is not None:
                self.appended.append(Appended(swap.stream, message, record.due_us))
        return answers

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts = await super().settle(settlements)
        for settlement, verdict in zip(settlements, verdicts, strict=True):
            if verdict is Verdict.KEPT:
                self._remember(settlement)
        self._wake_waiters()
        return verdicts

    def _register_waiter(self, streams: Sequence[Stream], consumer: str) -> RegisteredWaiter:
        self._wake_waiters()  # a claim found nothing: what is queued may wait for a limit
        return super()._register_waiter(streams, consumer)

    def _wake_waiters(self) -> None:
        for waiter in self._waiters:
            waiter.wake(None)

    async def something_settled(self, timeout: float) -> None:
        """Wait until a message is settled or a claim has found nothing, at most `timeout` seconds."""
        waiter: Waiter[None] = Waiter()
        self._waiters.add(waiter)
        try:
            await waiter.heard(timeout, otherwise=None)
        finally:
            self._waiters.discard(waiter)

    def record(self, stream: Stream, id: str) -> Record:
        """What is known of a message, also of a success without an end record."""
        found = at_once(self.get(stream, id))
        if found is not None:
            return found
        succeeded = (stream, id) in self._succeeded
        return Record(stream, id, JobStatus.SUCCEEDED if succeeded else JobStatus.UNKNOWN)

    def next_due_us(self, streams: Sequence[Stream], statuses: Sequence[JobStatus]) -> int | None:
        """When the first message in one of these states is due."""
        with self._lock:
            entries = [
                entry for stream in streams for entry in self._store.stream_state(stream).entries.values()
            ]
            return min((entry.due_us for entry in entries if entry.status in statuses), default=None)

    def next_tokens_us(self, streams: Sequence[Stream]) -> int | None:
        """When a rate allows the next start, for which messages of these streams wait."""
        with self._lock:
            return self._store.limits.first_us_of(streams)

    def ready(self, stream: Stream) -> int:
        """How many messages can be claimed now. Others wait for a limit, or for an earlier one of their
        key."""
        with self._lock:
            state = self._store.stream_state(stream)
            return state.queued() - len(state.parking) - state.lanes.lines.blocked()

    def before_move(self, us: int) -> None:
        # The time passes for waiting messages only. A worker that runs a job is alive: its lease must hold.
        with self._lock:
            for stream_state in self._store.stream_states.values():
                for entry in stream_state.running.values():
                    entry.leased_us += us

    def after_move(self) -> None:
        with self._lock:
            for stream in list(self._store.stream_states):
                self._store.announce(DueNotice(stream))
                self._store.announce(ScheduleNotice(stream))

    def _remember(self, settlement: Settlement) -> None:
        claim, outcome = settlement.claim, settlement.outcome
        if isinstance(outcome, Done):
            self._succeeded.add((claim.whole, claim.id))
        elif isinstance(outcome, Dead):
            task = self.record(claim.whole, claim.id).task
            self.deaths.append(Death(claim.whole, claim.id, task, outcome))


class KitDatabase(UserDatabase):
    """Takes the transactions of every database: a test need not have the outbox of the app. Jobs are enqueued
    at once, whatever becomes of the transaction."""

    dialect = None
    name = "the store of a test"

    def __init__(self, store: KitStore) -> None:
        self._store = store

    @property
    def is_prepared(self) -> bool:
        return True

    async def prepare(self) -> None:
        """There is nothing to learn."""

    async def recognise(self, ask: Ask) -> Recognition:
        return Recognition.KNOWN

    async def write(self, ask: Ask, outgoing: Sequence[Outgoing]) -> list[Answer]:
        answers: list[Answer] = []
        for each in outgoing:
            answers += await self._store.append(Batch(each.stream, new_id(), 1, [each.message], each.limit))
        return answers


class KitRouter(StreamRouter):
    """In a test streams have no parts: the kit reads its store by the names that the code uses. Code that
    declares or splits them runs all the same: where the parts are is no part of what jobs do."""

    def declare(self, stream: Stream, parts: int) -> None:
        pass

    async def split(self, stream: Stream, parts: int) -> Layout:
        return Layout()


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The answer of a memory store's verb that never waits, for callers that cannot await it."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise AssertionError("it had to wait")
