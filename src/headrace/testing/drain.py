"""Runs an app's jobs until there is nothing left to run, and moves the clock instead of waiting."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec

from headrace.app import App
from headrace.core.messages.message import Stream
from headrace.core.records.record import Counts, JobStatus
from headrace.core.values.durations import Duration, seconds
from headrace.engine.intake.fan_out import FanOutReader
from headrace.engine.intake.served_names import chosen_queues
from headrace.engine.worker.worker import Worker

from .clock import Clock
from .store import KitStore, at_once
from .working import working

#: Seconds between two looks while nothing is settled: a purge or a pause may have changed the counts.
LOOK = 0.25

#: The most seconds that one look counts: a longer gap comes from a debugger.
LONGEST_LOOK = 1.0


class Drain:
    """One call of `Kit.drain`."""

    def __init__(
        self,
        app: App,
        store: KitStore,
        clock: Clock,
        *,
        queues: Sequence[str] | None,
        awaited: Sequence[JobStatus],
        concurrency: int,
        timeout: Duration | None,
    ) -> None:
        self._app = app
        self._store = store
        self._clock = clock
        self._queues = None if queues is None else chosen_queues(app._registry, queues, required=True)
        self._events = queues is None and bool(app._registry.subscriptions)
        self._concurrency = concurrency
        self._awaited = awaited  # to the time of such messages the clock is moved
        self._left = None if timeout is None else seconds("timeout", timeout)

    async def run(self) -> None:
        # Repeated while jobs enqueue others in new queues.
        while not self._done(streams := self._streams()):
            names = [stream.name for stream in streams if stream.kind == "queue"]
            async with working(
                self._app, queues=names, concurrency=self._concurrency, events=self._events
            ) as worker:
                await self._until_done(streams, worker)

    async def _until_done(self, streams: Sequence[Stream], worker: Worker) -> None:
        while not self._done(streams) or not worker._parts.running.slots.quiet:
            self._look_after_fan_outs(worker._parts.intake.subscriptions.fan_outs)
            if all(_idle(counts) for counts in self._counts(streams)):
                self._move_clock(streams)
            looked_at = time.monotonic()
            await self._store.something_settled(LOOK if self._left is None else min(LOOK, self._left))
            self._spend(time.monotonic() - looked_at, streams)

    def _look_after_fan_outs(self, readers: Sequence[FanOutReader]) -> None:
        """Note the events that fan-outs are done with, and run their retries now."""
        for reader in readers if JobStatus.RETRYING in self._awaited else ():
            reader.retry_now()
        at_rest = all(reader.limit.idle for reader in readers)
        for topic in self._store.unseen():
            last = self._store.last_of(topic)
            positions = [each.position.total for each in readers if each.topic == topic]
            if at_rest and all(position >= last for position in positions):
                self._store.saw(topic, last)

    def _streams(self) -> list[Stream]:
        streams = at_once(self._store.streams())
        known = (stream.name for stream in streams if stream.kind == "queue")
        names = self._queues or dict.fromkeys(
            (*chosen_queues(self._app._registry, None, required=True), *known)
        )
        queues: list[Stream] = [Stream("queue", name) for name in names]
        return queues + [stream for stream in streams if self._is_served(stream)]

    def _is_served(self, stream: Stream) -> bool:
        """Whether the stream is a topic, where events wait for their due time, or a group of the app."""
        if not self._events or stream.kind == "queue":
            return False
        return stream.kind == "topic" or self._app._registry.subscribed(stream) is not None

    def _counts(self, streams: Sequence[Stream]) -> Iterator[Counts]:
        """The counts of all streams, where `queued` counts what can be claimed now. The events of a topic
        count in its groups, which handle them."""
        for stream in streams:
            ready = 0 if stream.kind == "topic" else self._store.ready(stream)
            yield msgspec.structs.replace(at_once(self._store.counts(stream)), queued=ready)

    def _done(self, streams: Sequence[Stream]) -> bool:
        return (
            all(_idle(counts) for counts in self._counts(streams))
            and not (self._events and self._store.unseen())
            and not any(counts.due for counts in self._counts(streams) if not counts.paused)
            and not (self._events and at_once(self._store.outboxes()))
            and self._next_due_us(streams) is None
        )

    def _next_due_us(self, streams: Sequence[Stream]) -> int | None:
        running = [stream for stream in streams if not at_once(self._store.counts(stream)).paused]
        times = self._store.next_due_us(running, self._awaited), self._store.next_tokens_us(running)
        return min((time for time in times if time is not None), default=None)

    def _move_clock(self, streams: Sequence[Stream]) -> None:
        """Move the clock to the next due time, unless a message is due already."""
        due_us = self._next_due_us(streams)
        self._clock.advance_us(0 if due_us is None else max(0, due_us - self._clock.now_us()))

    def _spend(self, elapsed: float, streams: Sequence[Stream]) -> None:
        if self._left is None:
            return
        self._left -= min(elapsed, LONGEST_LOOK)
        if self._left < 0 and not self._done(streams):
            raise TimeoutError(
                f"the jobs did not come to an end in time; {self._state(streams)}. Does one wait for "
                "something, or enqueue itself again and again? drain(timeout=…) gives them more time."
            )

    def _state(self, streams: Sequence[Stream]) -> str:
        """The remaining work as text, for an error."""
        running = [
            f"{record.task} ({record.id})"
            for stream in streams
            for record in at_once(self._store.messages(stream, status=JobStatus.RUNNING))
        ]
        queued = sum(at_once(self._store.counts(stream)).queued for stream in streams)
        return f"{queued} are queued, running are: {', '.join(running) or 'none'}"


def _idle(counts: Counts) -> bool:
    return not counts.running and (counts.paused or not counts.queued)
