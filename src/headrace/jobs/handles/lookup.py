"""Finds jobs by id, waits for them and cancels them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from math import inf
from typing import Any

from headrace.core.encoding import encoding
from headrace.core.encoding.codec import AppCodec
from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.core.messages.message import Stream
from headrace.core.records.answers import CancelAnswer
from headrace.core.records.job_info import JobInfo, job_info
from headrace.core.records.record import JobStatus, Record
from headrace.core.runtime.clock import microseconds
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.app_loop.portal import Portal
from headrace.engine.app_loop.retrying import without_retries
from headrace.jobs.declaring.declared import Declared, decoded, opened_result
from headrace.jobs.encoder import queue_stream

_ANYTHING = encoding.decoder(Any)

#: Seconds between two looks for a job that a relay is to enqueue.
RELAY_LOOK = 0.05

#: Seconds by which a store that hangs may exceed the caller's timeout.
OVERTIME = 1.0


class JobLookup:
    """Serves `Job` handles. Without a queue, a job is looked up in every queue that the store knows."""

    def __init__(
        self,
        *,
        app_loop: AppLoop,
        declared: Mapping[str, Declared],
        codec: AppCodec | None,
        end_record_ttl: float,
        portal: Portal,
    ) -> None:
        self.portal = portal
        self._app_loop = app_loop
        self._declared = declared
        self._codec = codec
        self._ttl_us = microseconds(end_record_ttl)

    async def find(self, id: str, queue: str | None, timeout: float | None = None) -> Record | None:
        """What the store knows of a job. While it cannot be reached, this is repeated for up to `timeout`
        seconds."""
        return await self._app_loop.repeat(self._find, id, queue, within=timeout)

    async def ended(
        self, id: str, queue: str | None, timeout: float | None, *, relayed: bool | None = False
    ) -> Record | None:
        """Wait for the end of a job; None after `timeout` seconds. `relayed`: the job comes through an
        outbox, so it may be unknown at first."""
        until = inf if timeout is None else time.monotonic() + timeout
        while relayed and await self.find(id, queue, timeout) is None:
            if time.monotonic() >= until:
                return None
            await asyncio.sleep(min(RELAY_LOOK, max(0.0, until - time.monotonic())))
        if timeout is None:
            return await self._app_loop.repeat(self._ended, id, queue, None, waits=True)
        try:
            async with asyncio.timeout(timeout + OVERTIME):
                return await self._app_loop.repeat(self._ended, id, queue, until, within=timeout, waits=True)
        except TimeoutError:
            return None

    async def cancel(self, id: str, queue: str | None) -> bool:
        """Cancel a job; False when it is over."""
        doubts: list[BackendUnavailable] = []
        cancelled = await self._app_loop.repeat(self._cancel, id, queue, on_error=doubts.append)
        if not cancelled and any(error.uncertain for error in doubts):
            # A try whose answer was lost may have cancelled it.
            record = await self.find(id, queue)
            return record is not None and record.status is JobStatus.CANCELLED
        return cancelled

    async def unserved_queue(self, id: str, queue: str | None) -> str | None:
        """The queue of a job, if no worker serves it. None also when the store does not answer in a second:
        the caller has waited long enough."""
        try:
            async with asyncio.timeout(OVERTIME):
                with without_retries():
                    return await self._app_loop.repeat(self._unserved_queue, id, queue)
        except (HeadraceError, TimeoutError):
            return None

    def info_of(self, record: Record) -> JobInfo:
        """A record as users see it."""
        return job_info(record, self._codec)

    def keeps_result(self, task: str) -> bool:
        """Whether results of this task are kept. Yes for a task that this app does not know."""
        declared = self._declared.get(task)
        return declared is None or declared.result_ttl > 0

    def decoded_result(self, id: str, task: str, result: bytes) -> Any:
        """The result of a job in the type that its task returns, or as plain data when this app does not know
        the task."""
        declared = self._declared.get(task)
        if declared is not None:
            return declared.decode_result(result, id)
        return decoded(_ANYTHING, opened_result(result, self._codec, id, task), task)

    async def _find(self, id: str, queue: str | None) -> Record | None:
        backend = self._app_loop.backend
        streams = [queue_stream(queue)] if queue is not None else await self._queues()
        records = await asyncio.gather(*(backend.get(stream, id) for stream in streams))
        found = next((record for record in records if record is not None), None)
        if found is not None:
            return await backend.completed(found.stream, id, found)
        ended = await asyncio.gather(*(backend.completed(stream, id, None) for stream in streams))
        return next((record for record in ended if record is not None), None)

    async def _queues(self) -> list[Stream]:
        return [stream for stream in await self._app_loop.backend.streams() if stream.kind == "queue"]

    async def _ended(self, id: str, queue: str | None, until: float | None) -> Record | None:
        if queue is None:
            record = await self._find(id, None)
            if record is None:
                return Record(queue_stream("default"), id, JobStatus.UNKNOWN)
            queue = record.stream.name
        left = None if until is None else max(0.0, until - time.monotonic())
        backend, stream = self._app_loop.backend, queue_stream(queue)
        record = await backend.wait_for_end(stream, id, left)
        if record is None or record.status is not JobStatus.UNKNOWN:
            return record
        return await backend.completed(stream, id, record)

    async def _unserved_queue(self, id: str, queue: str | None) -> str | None:
        if queue is None:
            record = await self._find(id, None)
            queue = record.stream.name if record is not None else None
        workers = await self._app_loop.backend.workers()
        return None if any(queue in worker.queues for worker in workers) else queue

    async def _cancel(self, id: str, queue: str | None) -> bool:
        if queue is None:
            record = await self._find(id, None)
            if record is None:
                return False
            queue = record.stream.name
        answer = await self._app_loop.backend.cancel(queue_stream(queue), id, ttl_us=self._ttl_us)
        return answer is not CancelAnswer.GONE
