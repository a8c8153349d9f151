"""Drops the oldest dead letters of queues that keep them for a time, or a number of them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping
from itertools import takewhile

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import microseconds
from headrace.core.signals import DeadDropped
from headrace.engine.declared.queue import Queue
from headrace.engine.emitter import Emitter
from headrace.engine.service import Service
from headrace.engine.streams import StreamRouter

#: Dead letters of one queue that are dropped in one step.
DROP_BATCH = 500

#: Seconds between two rounds.
DROP_EVERY = 5.0


class DeadDropping(Service):
    """Only workers that serve such a queue have it. `queues` are these queues with their options."""

    def __init__(self, backend: StreamRouter, queues: Mapping[Stream, Queue], *, emitter: Emitter) -> None:
        self._backend = backend
        self._queues = queues
        super().__init__("dead dropping", self._drop_all, emitter=emitter)

    async def stop(self) -> None:
        """End after one more step: this worker may be the last one."""
        await super().stop()
        with contextlib.suppress(BackendUnavailable):
            await self._drop_all()

    async def _drop_all(self) -> float | None:
        dropped = [await self._drop(stream, options) for stream, options in self._queues.items()]
        more = any(count >= DROP_BATCH for count in dropped)
        return None if more else DROP_EVERY * random.uniform(0.5, 1.5)  # nosec B311 # jitter

    async def _drop(self, stream: Stream, options: Queue) -> int:
        """Drop a batch. Several workers may choose the same dead letters. Each is counted once."""
        ids = await self._outdated(stream, options)
        dropped = await self._backend.discard(stream, ids) if ids else 0
        if dropped:
            self._emitter.emit(DeadDropped(stream.name, dropped))
        return dropped

    async def _outdated(self, stream: Stream, options: Queue) -> list[str]:
        """The oldest dead letters beyond the number or the age that the queue keeps."""
        dead = (await self._backend.counts(stream)).dead
        beyond = 0 if options.dead_limit is None else max(0, dead - options.dead_limit)
        if not dead or not (beyond or options.dead_retention is not None):
            return []
        oldest = await self._backend.oldest_dead(stream, limit=DROP_BATCH)
        if options.dead_retention is not None:
            most_us = microseconds(options.dead_retention)
            beyond = max(beyond, len(list(takewhile(lambda each: each.age_us >= most_us, oldest))))
        return [each.id for each in oldest[:beyond]]
