"""Appends messages: what is asked for while one append is under way goes together in the next."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import msgspec

from headrace.core.backend import Answer, Backend
from headrace.core.errors import BackendUnavailable, NotConfirmed
from headrace.core.message import Batch, Message, Stream

from .identity import new_identity
from .service import backoff

#: The bounds of one append: messages, and bytes of their bodies (a single message may be larger).
BATCH_MESSAGES = 500
BATCH_BYTES = 1024 * 1024

#: Callers in a batch from which on they are served in turns.
CROWD = 16

#: Streams of which a producer keeps state; beyond that it forgets those that are idle.
LANES_MOST = 1000

#: Seconds for which an append is tried again before the caller is told.
PATIENCE = 10.0


class _Request(msgspec.Struct):
    """Messages of one caller, of which some may be still to come, and the answers so far."""

    messages: list[Message]
    total: int
    future: asyncio.Future[list[Answer]]
    since: float  # when it was made
    taken: int = 0
    answers: list[Answer] = []

    def take(self, most: int, room: int, *, first: bool) -> tuple[list[Message], int]:
        """The next messages, up to so many with so many bytes of bodies, and what is left of that room. The
        first of a batch always fits."""
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
        """What the store said to a part that was taken."""
        self.answers += answers
        if len(self.answers) == self.total and not self.future.done():
            self.future.set_result(self.answers)

    def fail(self, error: Exception) -> None:
        """What is left of it is not sent."""
        self.taken = len(self.messages)
        if not self.future.done():
            self.future.set_exception(error)


class _Sender:
    """Batches under one name: numbered, exactly one in flight."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.task: asyncio.Task[None] | None = None
        self.parts: list[tuple[_Request, list[Message]]] = []  # of the batch under way


class _Lane:
    """One stream's line of requests, and who sends them. The first sender takes whatever is there, any other
    only lone messages: the parts of a larger request go one after the other."""

    def __init__(self, stream: Stream, limit: int | None, names: Sequence[str]) -> None:
        self.stream = stream
        self.limit = limit
        self.requests: deque[_Request] = deque()
        self.senders = [_Sender(name) for name in names]
        self.first = self.senders[0]
        self.sending = 0  # how many of them are at it
        self.starting = False  # a sender is about to take what is there
        self.crowded = False  # in the last batch there were several: more will come with the next
        self.alone = False  # a caller sends its own message, since the line was empty
        self.caller: asyncio.Task[Any] | None = None  # who does, and since when it waits
        self.since = 0.0
        self.given_up: int | None = None  # it is out of time; how often it was cancelled before
        self.answered_at = 0.0  # while the store takes what comes before, nobody is out of time
        self.trouble: BackendUnavailable | None = None  # the last one
        self.left: asyncio.Future[None] | None = None  # somebody waits for the end of that

    @property
    def idle(self) -> bool:
        return not (self.alone or self.sending)

    @property
    def waiting(self) -> list[_Request]:
        """Who has no answer yet, of those in the line and those whose messages are under way."""
        sent = [request for sender in self.senders for request, _ in sender.parts]
        known = [*self.requests, *sent]
        return [request for request in known if not request.future.done()]

    def until(self, since: float) -> float:
        """When one who has waited since then is told that there is no answer."""
        return max(since, self.answered_at) + PATIENCE

    def out_of_time(self) -> BackendUnavailable:
        why = self.trouble or f"the store has not answered within {PATIENCE:g} s"
        return BackendUnavailable(str(why), uncertain=True, transient=True)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [sender.task for sender in self.senders if sender.task is not None]

    def give_up(self) -> None:
        """End what the caller waits for."""
        if self.caller is not None and self.given_up is None:
            self.given_up = self.caller.cancelling()
            self.caller.cancel()

    def is_given_up(self) -> bool:
        """Whether the caller was ended for that, and for nothing else. Its task then goes on as before."""
        before, self.given_up = self.given_up, None
        return before is not None and self.caller is not None and self.caller.uncancel() <= before

    def batch(self, sender: _Sender, messages: list[Message]) -> Batch:
        sender.number += 1
        return Batch(self.stream, sender.name, sender.number, messages, self.limit)


class Producer:
    """Idempotent: a batch whose answer was lost is sent again under its number and makes no second job.

    The sending is a task of its own, so a caller that is cancelled does not tear a batch in flight. But who
    finds the line empty, and no crowd lately, sends a lone message himself, which spares it half of the way
    through the event loop; when he is cancelled over it, a task sends that batch again.

    Where a store takes several appends at once a crowd of callers is served in turns: while the store is at
    work on the messages of some, others make theirs.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._id = new_identity()
        self._lanes: dict[tuple[Stream, int | None], _Lane] = {}
        self._watchdog: asyncio.TimerHandle | None = None
        self._forgotten = 0  # how often lanes were

    def append(
        self, stream: Stream, messages: list[Message], limit: int | None, since: float | None = None
    ) -> Awaitable[list[Answer]]:
        """Store the messages, in order; one answer each, or `BackendUnavailable` when there is none within
        `PATIENCE` from now, or from `since`."""
        lane = self._lanes.get((stream, limit)) or self._new_lane(stream, limit)
        since = time.monotonic() if since is None else since
        if self._watchdog is None:
            self._watch(since + PATIENCE)
        if len(messages) == 1 and not (lane.crowded or lane.alone or lane.sending):
            return self._send_alone(lane, lane.batch(lane.first, messages), since)
        request = _new_request(messages, len(messages), since)
        if messages:
            self._submit(request, lane)
        else:
            request.answer([])
        return request.future

    async def append_pages(
        self, stream: Stream, pages: Iterable[list[Message]], total: int, limit: int | None
    ) -> list[Answer]:
        """The same for `total` messages that are still to be written: the store is at work on a batch while
        the pages of the next are made, and whatever else the loop has to do is done between two pages."""
        lane = self._lanes.get((stream, limit)) or self._new_lane(stream, limit)
        request = _new_request([], total, time.monotonic())
        if self._watchdog is None:
            self._watch(request.since + PATIENCE)
        written: list[Message] = []
        for page in pages:
            if request.future.done():  # it failed: the rest is not sent
                break
            written += page
            if len(written) >= BATCH_MESSAGES or len(request.messages) + len(written) == total:
                self._add(written, request, lane)
                written = []
            await asyncio.sleep(0)
        return await request.future if total else []

    async def close(self) -> None:
        """Wait for what is under way."""
        for lane in list(self._lanes.values()):
            if lane.alone:
                lane.left = lane.left or asyncio.get_running_loop().create_future()
                await asyncio.shield(lane.left)
        while tasks := [task for lane in self._lanes.values() for task in lane.tasks]:
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None

    def forget(self) -> None:
        """The loop that the lanes lived on is gone; begin anew under another name."""
        self._id = new_identity()
        self._lanes.clear()
        self._watchdog = None

    def _new_lane(self, stream: Stream, limit: int | None) -> _Lane:
        if len(self._lanes) >= LANES_MOST:
            self._forget_idle_lanes()
        # Batches with numbers of their own have a name of their own: those with another limit, and those of a
        # lane that was forgotten and is made again.
        name = f"{self._id}~{self._forgotten}" if self._forgotten else self._id
        name = name if limit is None else f"{name}:{limit}"
        # Events of a key stay in their order also when one append must be repeated.
        at_once = self._backend.appends_at_once if stream.kind == "queue" else 1
        names = [name, *(f"{name}+{number}" for number in range(1, at_once))]
        lane = self._lanes[stream, limit] = _Lane(stream, limit, names)
        return lane

    def _forget_idle_lanes(self) -> None:
        """All but the newest."""
        self._forgotten += 1
        for key, lane in list(self._lanes.items())[: -LANES_MOST // 2]:
            if lane.idle and not lane.requests:
                del self._lanes[key]

    def _add(self, messages: list[Message], request: _Request, lane: _Lane) -> None:
        """To a request of which so far all, or not all, was taken off the line."""
        used_up = request.taken == len(request.messages)
        request.messages += messages
        if used_up:
            self._submit(request, lane)

    def _submit(self, request: _Request, lane: _Lane) -> None:
        lane.requests.append(request)
        if not (lane.alone or lane.starting):
            self._start_one(lane)

    def _start_one(self, lane: _Lane) -> None:
        """Have whoever is free send what is there. Who is under way will look himself before he ends."""
        for sender in lane.senders if lane.requests[0].total == 1 else [lane.first]:
            if sender.task is None:
                self._start(lane, sender)
                return

    def _start(self, lane: _Lane, sender: _Sender, torn: Batch | None = None) -> None:
        lane.starting = True
        lane.sending += 1
        sending = self._send_all(lane, sender, torn)
        sender.task = asyncio.get_running_loop().create_task(sending, name="headrace producer")

    async def _send_alone(self, lane: _Lane, batch: Batch, since: float) -> list[Answer]:
        lane.alone, lane.caller, lane.since, lane.trouble = True, asyncio.current_task(), since, None
        torn: Batch | None = None
        try:
            answers = await self._append_patiently(lane, batch, since)
            if lane.requests:
                lane.answered_at = time.monotonic()
            return answers
        except asyncio.CancelledError:
            if lane.is_given_up():
                raise lane.out_of_time() from None
            torn = batch
            raise
        finally:
            lane.alone = False
            if lane.given_up is not None:  # the store was the quicker
                lane.is_given_up()
            if torn or lane.requests:
                self._start(lane, lane.first, torn)
            if lane.left is not None:
                lane.left.set_result(None)
                lane.left = None

    async def _send_all(self, lane: _Lane, sender: _Sender, torn: Batch | None = None) -> None:
        try:
            if torn is not None:
                await self._send(lane, torn, [])
            while parts := _next_batch(lane.requests, lone=sender is not lane.first):
                lane.starting = False
                messages = [message for request, part in parts for message in part]
                lane.crowded = len(messages) > 1
                sender.parts = parts
                await self._send(lane, lane.batch(sender, messages), parts)
        finally:
            lane.starting = False
            lane.sending -= 1
            sender.task, sender.parts = None, []

    async def _send(self, lane: _Lane, batch: Batch, parts: list[tuple[_Request, list[Message]]]) -> None:
        since = parts[-1][0].since if parts else time.monotonic()
        try:
            answers = await self._append_patiently(lane, batch, since)
            lane.answered_at, lane.trouble = time.monotonic(), None
            if len(answers) != len(batch.messages):  # a bug in a store: better heard of than waited for
                raise RuntimeError(f"{len(batch.messages)} messages were appended, {len(answers)} answered")
        except NotConfirmed as error:
            lane.answered_at = time.monotonic()
            _fail_each(parts, error)
            return
        except Exception as error:
            for request, _ in parts:
                request.fail(error)
            return
        await _answer_in_turns(lane, parts, answers)

    async def _append_patiently(self, lane: _Lane, batch: Batch, since: float) -> list[Answer]:
        failures = 0
        uncertain = False
        while True:
            try:
                return await self._backend.append(batch)
            except NotConfirmed:
                raise  # it was taken: there is nothing to send again
            except BackendUnavailable as error:
                uncertain = uncertain or error.uncertain
                failures += 1
                pause = backoff(failures)
                passes = uncertain or error.transient
                if not passes or time.monotonic() + pause > lane.until(since):
                    error.uncertain = uncertain
                    raise
                lane.trouble = error
                await asyncio.sleep(pause)

    def _watch(self, until: float) -> None:
        """Look then for those who are out of time, also when the store leaves its answer open. One timer for
        all: one for each would cost more than some stores do."""
        delay = max(0.0, until - time.monotonic())
        self._watchdog = asyncio.get_running_loop().call_later(delay, self._look_for_late)

    def _look_for_late(self) -> None:
        self._watchdog = None
        now = time.monotonic()
        left: list[float] = []
        for lane in self._lanes.values():
            if lane.alone and lane.until(lane.since) <= now:
                lane.give_up()
            elif lane.alone:
                left.append(lane.until(lane.since))
            for request in lane.waiting:
                if lane.until(request.since) <= now:
                    request.fail(lane.out_of_time())
                else:
                    left.append(lane.until(request.since))
        if left:
            self._watch(min(left))


def _new_request(messages: list[Message], total: int, since: float) -> _Request:
    return _Request(messages, total, asyncio.get_running_loop().create_future(), since)


def _next_batch(requests: deque[_Request], *, lone: bool) -> list[tuple[_Request, list[Message]]]:
    """Take messages off the line up to the bounds of a batch, or up to the first request that is not for a
    `lone` message; a request that is used up leaves the line."""
    parts: list[tuple[_Request, list[Message]]] = []
    most, room = BATCH_MESSAGES, BATCH_BYTES
    while requests and most:
        request = requests[0]
        if lone and request.total > 1:
            break
        if request.taken == len(request.messages):  # an earlier part of it failed: the rest is not sent
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


async def _answer_in_turns(
    lane: _Lane, parts: list[tuple[_Request, list[Message]]], answers: list[Answer]
) -> None:
    """Of a crowd that was all in one batch, let half go first: what they send next is on its way while the
    others are still to be woken."""
    half = len(parts) // 2 if len(parts) >= CROWD and len(lane.tasks) < len(lane.senders) else 0
    position = _answer_each(parts[:half], answers, 0)
    try:
        if half:
            await asyncio.sleep(0)
    finally:
        _answer_each(parts[half:], answers, position)


def _answer_each(parts: list[tuple[_Request, list[Message]]], answers: list[Answer], position: int) -> int:
    for request, part in parts:
        request.answer(answers[position : position + len(part)])
        position += len(part)
    return position


def _fail_each(parts: list[tuple[_Request, list[Message]]], error: NotConfirmed) -> None:
    """Tell each caller which of its own messages were taken."""
    position = 0
    for request, part in parts:
        request.answers += error.answers[position : position + len(part)]
        position += len(part)
        request.fail(NotConfirmed(str(error), answers=request.answers))
