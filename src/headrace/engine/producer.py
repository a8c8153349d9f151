"""Appends messages: what is asked for while one append is under way goes together in the next."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from headrace.core.backend import Answer, Backend
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Batch, Message, Stream

from .identity import new_identity
from .service import backoff

#: The bounds of one append: messages, and bytes of their bodies (a single message may be larger).
BATCH_MESSAGES = 500
BATCH_BYTES = 1024 * 1024

#: Seconds for which an append is tried again before the caller is told.
PATIENCE = 10.0


class _Request:
    """Messages of one caller, and the answers so far."""

    __slots__ = ("answers", "future", "messages", "taken")

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.taken = 0
        self.answers: list[Answer] = []
        self.future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()


class _Lane:
    """One stream's line of requests: numbered batches, exactly one in flight."""

    def __init__(self) -> None:
        self.requests: deque[_Request] = deque()
        self.number = 0
        self.task: asyncio.Task[None] | None = None


class Producer:
    """Idempotent: a batch whose answer was lost is sent again under its number and makes no second job.

    The sending is a task of its own, so a caller that is cancelled does not tear a batch in flight.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._id = new_identity()
        self._lanes: dict[tuple[Stream, int | None], _Lane] = {}

    async def append(self, stream: Stream, messages: list[Message], limit: int | None) -> list[Answer]:
        """Store the messages, in order; one answer each."""
        if not messages:
            return []
        lane = self._lanes.get((stream, limit))
        if lane is None:
            lane = self._lanes[stream, limit] = _Lane()
        request = _Request(messages)
        lane.requests.append(request)
        if lane.task is None:
            sending = self._send_all(lane, stream, limit)
            lane.task = asyncio.get_running_loop().create_task(sending, name="headrace producer")
        return await request.future

    async def close(self) -> None:
        """Wait for what is under way."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def forget(self) -> None:
        """The loop that the lanes lived on is gone; begin anew under another name."""
        self._id = new_identity()
        self._lanes.clear()

    async def _send_all(self, lane: _Lane, stream: Stream, limit: int | None) -> None:
        try:
            while parts := _next_batch(lane.requests):
                messages = [message for request, part in parts for message in part]
                lane.number += 1
                # The limit is a part of the name: batches with another limit have numbers of their own.
                producer = self._id if limit is None else f"{self._id}:{limit}"
                await self._send(Batch(stream, producer, lane.number, messages, limit), parts)
        finally:
            lane.task = None

    async def _send(self, batch: Batch, parts: list[tuple[_Request, list[Message]]]) -> None:
        try:
            answers = await self._append_patiently(batch)
        except Exception as error:
            for request, _ in parts:
                _fail(request, error)
            return
        position = 0
        for request, part in parts:
            request.answers += answers[position : position + len(part)]
            position += len(part)
            if len(request.answers) == len(request.messages) and not request.future.done():
                request.future.set_result(request.answers)

    async def _append_patiently(self, batch: Batch) -> list[Answer]:
        deadline = time.monotonic() + PATIENCE
        failures = 0
        uncertain = False
        while True:
            try:
                return await self._backend.append(batch)
            except BackendUnavailable as error:
                uncertain = uncertain or error.uncertain
                failures += 1
                pause = backoff(failures)
                if not (uncertain or error.transient) or time.monotonic() + pause > deadline:
                    error.uncertain = uncertain
                    raise
                await asyncio.sleep(pause)


def _next_batch(requests: deque[_Request]) -> list[tuple[_Request, list[Message]]]:
    """Take messages off the line up to the bounds of a batch; a request that is used up leaves the line."""
    parts: list[tuple[_Request, list[Message]]] = []
    messages = size = 0
    while requests and messages < BATCH_MESSAGES:
        request = requests[0]
        if request.taken == len(request.messages):  # an earlier part of it failed: the rest is not sent
            requests.popleft()
            continue
        part: list[Message] = []
        for message in request.messages[request.taken : request.taken + BATCH_MESSAGES - messages]:
            if (parts or part) and size + len(message.body) > BATCH_BYTES:
                break
            part.append(message)
            size += len(message.body)
        if not part:
            break
        parts.append((request, part))
        messages += len(part)
        request.taken += len(part)
        if request.taken < len(request.messages):
            break
        requests.popleft()
    return parts


def _fail(request: _Request, error: Exception) -> None:
    request.taken = len(request.messages)
    if not request.future.done():
        request.future.set_exception(error)
