"""Finds jobs by their id, waits for them and cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from headrace.core import values
from headrace.core.backend import CancelAnswer
from headrace.core.clock import microseconds
from headrace.core.codec import Codec, unwrapped
from headrace.core.record import JobStatus, Record
from headrace.engine.home import Home

from .declared import Declared, decoded
from .letters import queue_stream

_ANYTHING = values.decoder(Any)


class JobLookup:
    """Answers a handle's questions. An id alone is asked of every queue that the store knows."""

    def __init__(
        self, *, home: Home, declared: Mapping[str, Declared], codec: Codec | None, mark_ttl: float
    ) -> None:
        self._home = home
        self._declared = declared
        self._codec = codec
        self._mark_us = microseconds(mark_ttl)

    async def find(self, id: str, queue: str | None) -> Record | None:
        """All that is known of a job."""
        return await self._home.call(self._find, id, queue)

    async def ended(self, id: str, queue: str | None, timeout: float | None) -> Record | None:
        """Wait for a job's end; None after `timeout` seconds."""
        return await self._home.call(self._ended, id, queue, timeout)

    async def cancel(self, id: str, queue: str | None) -> bool:
        """Cancel a job; False when it is over."""
        return await self._home.call(self._cancel, id, queue)

    def keeps_result(self, task: str) -> bool:
        """Whether results of this task are kept, as far as this app knows it."""
        declared = self._declared.get(task)
        return declared is None or declared.result_ttl > 0

    def decoded_result(self, task: str, result: bytes) -> Any:
        """A result in the type its task returns, or as plain data when the task is not known here."""
        declared = self._declared.get(task)
        if declared is not None:
            return declared.decode_result(result)
        return decoded(_ANYTHING, unwrapped(result, self._codec), task)

    async def _find(self, id: str, queue: str | None) -> Record | None:
        backend = self._home.backend
        if queue is not None:
            return await backend.look(queue_stream(queue), id)
        streams = [stream for stream in await backend.streams() if stream.kind == "queue"]
        records = await asyncio.gather(*(backend.look(stream, id) for stream in streams))
        return next((record for record in records if record is not None), None)

    async def _ended(self, id: str, queue: str | None, timeout: float | None) -> Record | None:
        if queue is None:
            record = await self._find(id, None)
            if record is None:
                return Record(queue_stream("default"), id, JobStatus.UNKNOWN)
            queue = record.stream.name
        return await self._home.backend.ended(queue_stream(queue), id, timeout)

    async def _cancel(self, id: str, queue: str | None) -> bool:
        if queue is None:
            record = await self._find(id, None)
            if record is None:
                return False
            queue = record.stream.name
        answer = await self._home.backend.cancel(queue_stream(queue), id, mark_us=self._mark_us)
        return answer is not CancelAnswer.GONE
