"""Finds jobs by id, waits for them and cancels them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from headrace.core.errors import BackendUnavailable
from headrace.core.records.answers import CancelAnswer
from headrace.core.records.record import JobStatus, Record
from headrace.core.runtime.clock import microseconds
from headrace.core.values import encoding
from headrace.core.values.codec import AppCodec
from headrace.engine.app_loop.app_loop import AppLoop

from .declared import Declared, decoded, opened_result
from .encoder import queue_stream

_ANYTHING = encoding.decoder(Any)

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
    ) -> None:
        self._app_loop = app_loop
        self._declared = declared
        self._codec = codec
        self._ttl_us = microseconds(end_record_ttl)

    async def find(self, id: str, queue: str | None, timeout: float | None = None) -> Record | None:
        """What the store knows of a job. While it cannot be reached, this is repeated for up to `timeout`
        seconds."""
        return await self._app_loop.repeat(self._find, id, queue, within=timeout)

    async def ended(self, id: str, queue: str | None, timeout: float | None) -> Record | None:
        """Wait for the end of a job; None after `timeout` seconds."""
        if timeout is None:
            return await self._app_loop.repeat(self._ended, id, queue, None, waits=True)
        until = time.monotonic() + timeout
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
        if queue is not None:
            return await backend.get(queue_stream(queue), id)
        streams = [stream for stream in await backend.streams() if stream.kind == "queue"]
        records = await asyncio.gather(*(backend.get(stream, id) for stream in streams))
        return next((record for record in records if record is not None), None)

    async def _ended(self, id: str, queue: str | None, until: float | None) -> Record | None:
        if queue is None:
            record = await self._find(id, None)
            if record is None:
                return Record(queue_stream("default"), id, JobStatus.UNKNOWN)
            queue = record.stream.name
        left = None if until is None else max(0.0, until - time.monotonic())
        return await self._app_loop.backend.wait_for_end(queue_stream(queue), id, left)

    async def _cancel(self, id: str, queue: str | None) -> bool:
        if queue is None:
            record = await self._find(id, None)
            if record is None:
                return False
            queue = record.stream.name
        answer = await self._app_loop.backend.cancel(queue_stream(queue), id, ttl_us=self._ttl_us)
        return answer is not CancelAnswer.GONE
