"""The line of requests for one stream that a producer appends to, and the senders of its batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import Any

import msgspec

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.answers import Answer
from headrace.engine.app_loop.retrying import RETRY_TIME

#: The bounds of one append: messages, and bytes of their bodies (a single message may be larger).
BATCH_MESSAGES = 500
BATCH_BYTES = 1024 * 1024


class AppendRequest(msgspec.Struct):
    """The messages of one caller, some of which may come later, and the answers so far."""

    messages: list[Message]
    total: int
    future: asyncio.Future[list[Answer]]
    since: float  # when it was made
    taken: int = 0
    answers: list[Answer] = []

    def take(self, most: int, room: int, *, first: bool) -> tuple[list[Message], int]:
        """Take the next messages: at most `most`, with at most `room` bytes of bodies. Also return the room
        that is left. The first message of a batch always fits."""
        part: list[Message] = []
        for message in self.messages[self.taken : self.taken + most]:
            size = len(message.body)
            if size > room and (part or not first):
                break
            room -= size
            part.append(message)
        self.taken += len(part)
        return part, room

    def answer(self, answers: list[Answer]) -> None:
        """Note the answers to messages that were taken."""
        self.answers += answers
        if len(self.answers) == self.total and not self.future.done():
            self.future.set_result(self.answers)

    def fail(self, error: Exception) -> None:
        """Raise `error` in the caller. The rest of the messages is not sent."""
        self.taken = len(self.messages)
        if not self.future.done():
            self.future.set_exception(_after_a_part(error) if self.answers else error)


#: The requests of one batch, each with those of its messages that are in the batch.
BatchParts = list[tuple[AppendRequest, list[Message]]]


class BatchSender:
    """Sends numbered batches under one name, one at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.task: asyncio.Task[None] | None = None
        self.batch: Batch | None = None  # in flight
        self.parts: BatchParts = []  # of this batch


class ProducerLane:
    """The requests for one stream, and their senders. The first sender takes any request. The others take
    only requests of a single message, because the parts of a larger request are sent one after the other."""

    def __init__(self, stream: Stream, limit: int | None, names: Sequence[str]) -> None:
        self.stream = stream
        self.limit = limit
        self.requests: deque[AppendRequest] = deque()
        self.senders = [BatchSender(name) for name in names]
        self.first = self.senders[0]
        self.sending = 0  # senders at work
        self.starting = False  # a sender is about to take the requests
        self.crowded = False  # the last batch had several messages, so the next will too
        self.direct = False  # a caller sends its single message itself, because the line was empty
        self.caller: asyncio.Task[Any] | None = None  # the task of this caller
        self.since = 0.0  # when this caller began to wait
        self.given_up: int | None = None  # set when it is out of time: how often it was cancelled before
        self.answered_at = 0.0  # while the store answers earlier batches, no caller is out of time
        self.error: BackendUnavailable | None = None  # the last error
        self.direct_ended: asyncio.Future[None] | None = None  # `Producer.close` waits for a direct message

    @property
    def idle(self) -> bool:
        return not (self.direct or self.sending)

    @property
    def waiting(self) -> list[AppendRequest]:
        """The requests without an answer, both in the line and in flight."""
        sent = [request for sender in self.senders for request, _ in sender.parts]
        known = [*self.requests, *sent]
        return [request for request in known if not request.future.done()]

    def until(self, since: float) -> float:
        """When a caller that has waited since then gets an error."""
        return max(since, self.answered_at) + RETRY_TIME

    def out_of_time(self) -> BackendUnavailable:
        why = self.error or f"the store has not answered within {RETRY_TIME:g} s"
        return BackendUnavailable(str(why), uncertain=True, transient=True)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [sender.task for sender in self.senders if sender.task is not None]

    def give_up(self) -> None:
        """End the wait of the caller that sends its message itself."""
        if self.caller is not None and self.given_up is None:
            self.given_up = self.caller.cancelling()
            self.caller.cancel()

    def is_given_up(self) -> bool:
        """Whether `give_up` alone has cancelled the caller. Its task then goes on with an error instead."""
        before, self.given_up = self.given_up, None
        return before is not None and self.caller is not None and self.caller.uncancel() <= before

    def batch(self, sender: BatchSender, messages: list[Message]) -> Batch:
        sender.number += 1
        return Batch(self.stream, sender.name, sender.number, messages, self.limit)


def _after_a_part(error: Exception) -> Exception:
    """The error for a request of which a part is stored. Other requests of the batch have the error as it
    is."""
    if not isinstance(error, BackendUnavailable) or error.uncertain:
        return error
    partial = copy(error)
    partial.uncertain, partial.__cause__ = True, error
    return partial


def next_batch(requests: deque[AppendRequest], *, single: bool) -> BatchParts:
    """Take messages off the line, up to the bounds of a batch. With `single`, stop at the first request of
    several messages. A request that is used up leaves the line."""
    parts: BatchParts = []
    most, room = BATCH_MESSAGES, BATCH_BYTES
    while requests and most:
        request = requests[0]
        if single and request.total > 1:
            break
        if request.taken == len(request.messages):  # an earlier part failed: the rest is not sent
            requests.popleft()
            continue
        part, room = request.take(most, room, first=not parts)
        if not part:
            break
        parts.append((request, part))
        most -= len(part)
        if request.taken < len(request.messages):
            break
        requests.popleft()
    return parts
