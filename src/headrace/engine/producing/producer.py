"""Appends messages to streams. Messages that arrive while one append is in flight go together in the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable
from functools import partial

from headrace.core.errors import BackendUnavailable, NotConfirmed
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.answers import Answer
from headrace.engine.service import backoff
from headrace.engine.streams import StreamRouter

from .identity import new_identity
from .producer_lane import BATCH_MESSAGES, AppendRequest, BatchParts, BatchSender, ProducerLane, next_batch

#: Callers in one batch from which on they are answered in two halves.
CROWD = 16

#: Lanes that a producer keeps. Beyond that it forgets those that are idle.
LANES_MOST = 1000


class Producer:
    """Appends the messages of all callers of one event loop.

    Appending is idempotent: a batch whose answer was lost is sent again under its number and makes no second
    job. A task sends the batches, so cancelling a caller does not interrupt a batch in flight. When no batch
    is in flight, the caller sends its single message directly. This saves one trip through the event loop.
    When this caller is cancelled, a task sends the batch again.

    Some stores take several appends at once. There a crowd of callers is served in two halves: while the
    store writes the messages of one half, the other half makes its next messages.
    """

    def __init__(self, backend: StreamRouter) -> None:
        self._backend = backend
        self._id = new_identity()
        self._lanes: dict[tuple[Stream, int | None], ProducerLane] = {}
        self._watchdog: asyncio.TimerHandle | None = None
        self._paged: set[asyncio.Future[list[Answer]]] = set()  # requests whose pages are being added
        self._forgotten = 0  # how often idle lanes were forgotten

    def append(
        self, stream: Stream, messages: list[Message], limit: int | None, since: float | None = None
    ) -> Awaitable[list[Answer]]:
        """Store the messages in order, and return an answer for each. `BackendUnavailable` is raised when
        there is no answer within `RETRY_TIME` from now, or from `since`."""
        lane = self._lanes.get((stream, limit)) or self._new_lane(stream, limit)
        since = time.monotonic() if since is None else since
        if self._watchdog is None:
            self._watch(lane.until(since))
        if len(messages) == 1 and not (lane.crowded or lane.direct or lane.sending):
            return self._send_directly(lane, lane.batch(lane.first, messages), since)
        request = _new_request(messages, len(messages), since)
        if messages:
            self._submit(request, lane)
        else:
            request.answer([])
        return request.future

    async def append_pages(
        self, stream: Stream, pages: Iterable[list[Message]], total: int, limit: int | None
    ) -> list[Answer]:
        """Store `total` messages that `pages` makes page by page. While the store writes one batch, the pages
        of the next are made. Other tasks of the loop run between two pages."""
        if not total:
            return []
        lane = self._lanes.get((stream, limit)) or self._new_lane(stream, limit)
        request = _new_request([], total, time.monotonic())
        if self._watchdog is None:
            self._watch(lane.until(request.since))
        self._paged.add(request.future)
        try:
            await self._add_pages(pages, request, lane)
            return await request.future
        finally:
            self._paged.discard(request.future)
            request.future.cancel()  # the caller was cancelled: `close` waits no longer for its messages

    async def _add_pages(
        self, pages: Iterable[list[Message]], request: AppendRequest, lane: ProducerLane
    ) -> None:
        written: list[Message] = []
        for page in pages:
            if request.future.done():  # a part failed: the rest is not sent
                return
            written += page
            if len(written) >= BATCH_MESSAGES or len(request.messages) + len(written) == request.total:
                self._add(written, request, lane)
                written = []
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Wait until everything in flight is answered."""
        for lane in list(self._lanes.values()):
            if lane.direct:
                lane.direct_ended = lane.direct_ended or asyncio.get_running_loop().create_future()
                await asyncio.shield(lane.direct_ended)
        while (tasks := self._tasks()) or self._paged:
            if tasks:
                await asyncio.gather(*tasks, return_exceptions=True)
            else:
                await asyncio.wait(self._paged)
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for lane in self._lanes.values() for task in lane.tasks]

    def _new_lane(self, stream: Stream, limit: int | None) -> ProducerLane:
        if len(self._lanes) >= LANES_MOST:
            self._forget_idle_lanes()
        # Each series of batch numbers has its own name: one for each limit, and a new one when a forgotten
        # lane is made again.
        name = f"{self._id}~{self._forgotten}" if self._forgotten else self._id
        name = name if limit is None else f"{name}:{limit}"
        # A topic has one sender, so that events of one key stay in order when an append is repeated.
        at_once = self._backend.appends_at_once if stream.kind == "queue" else 1
        names = [name, *(f"{name}+{number}" for number in range(1, at_once))]
        lane = self._lanes[stream, limit] = ProducerLane(stream, limit, names)
        return lane

    def _forget_idle_lanes(self) -> None:
        """Forget idle lanes, except the newest ones."""
        self._forgotten += 1
        for key, lane in list(self._lanes.items())[: -LANES_MOST // 2]:
            if lane.idle and not lane.requests:
                del self._lanes[key]

    def _add(self, messages: list[Message], request: AppendRequest, lane: ProducerLane) -> None:
        """Add messages to a request, and put it back into the line if it has left the line."""
        used_up = request.taken == len(request.messages)
        request.messages += messages
        if used_up:
            self._submit(request, lane)

    def _submit(self, request: AppendRequest, lane: ProducerLane) -> None:
        lane.requests.append(request)
        if not (lane.direct or lane.starting):
            self._start_one(lane)

    def _start_one(self, lane: ProducerLane) -> None:
        """Start one free sender. A sender at work looks into the line again before it ends."""
        for sender in lane.senders if lane.requests[0].total == 1 else [lane.first]:
            if sender.task is None:
                self._start(lane, sender)
                return

    def _start(self, lane: ProducerLane, sender: BatchSender) -> None:
        lane.starting = True
        lane.sending += 1
        sending = self._send_all(lane, sender)
        sender.task = asyncio.get_running_loop().create_task(sending, name="headrace producer")
        sender.task.add_done_callback(partial(self._sender_ended, lane, sender))

    async def _send_directly(self, lane: ProducerLane, batch: Batch, since: float) -> list[Answer]:
        lane.direct, lane.caller, lane.since, lane.error = True, asyncio.current_task(), since, None
        interrupted: Batch | None = None
        try:
            answers = await self._append_with_retries(lane, batch, since)
            if lane.requests:
                lane.answered_at = time.monotonic()
            return answers
        except asyncio.CancelledError:
            if lane.is_given_up():
                raise lane.out_of_time() from None
            interrupted = batch
            raise
        finally:
            lane.direct = False
            if lane.given_up is not None:  # the store has answered at the same moment
                lane.is_given_up()
            if interrupted or lane.requests:
                lane.first.batch = interrupted
                self._start(lane, lane.first)
            if lane.direct_ended is not None:
                lane.direct_ended.set_result(None)
                lane.direct_ended = None

    async def _send_all(self, lane: ProducerLane, sender: BatchSender) -> None:
        try:
            if sender.batch is not None:  # it was interrupted
                await self._send(lane, sender, sender.batch)
            while parts := next_batch(lane.requests, single=sender is not lane.first):
                lane.starting = False
                messages = [message for request, part in parts for message in part]
                lane.crowded = len(messages) > 1
                sender.parts, sender.batch = parts, lane.batch(sender, messages)
                await self._send(lane, sender, sender.batch)
        finally:
            if sender.batch is None:  # else `_sender_ended` sends it again
                _rest(lane, sender)

    def _sender_ended(self, lane: ProducerLane, sender: BatchSender, task: asyncio.Task[None]) -> None:
        """Go on after a cancellation. Only a program that cancels every task of its loop cancels a sender.
        Some callers may still wait. A batch without an answer is sent again under its number."""
        if not task.cancelled():
            return
        waits = bool(lane.waiting)
        if sender.task is task:
            _rest(lane, sender)
        if not waits:
            sender.batch, sender.parts = None, []
        elif sender.task is None:
            self._start(lane, sender)

    async def _send(self, lane: ProducerLane, sender: BatchSender, batch: Batch) -> None:
        parts = sender.parts
        since = parts[-1][0].since if parts else time.monotonic()
        try:
            answers = await self._append_with_retries(lane, batch, since)
            lane.answered_at, lane.error = time.monotonic(), None
            if len(answers) != len(batch.messages):  # a bug in the store: do not wait for ever
                raise RuntimeError(f"{len(batch.messages)} messages were appended, {len(answers)} answered")
        except NotConfirmed as error:
            lane.answered_at = time.monotonic()
            sender.batch, sender.parts = None, []
            _fail_each(parts, error)
            return
        except Exception as error:
            sender.batch, sender.parts = None, []
            for request, _ in parts:
                request.fail(error)
            return
        sender.batch, sender.parts = None, []
        await _answer_in_turns(lane, parts, answers)

    async def _append_with_retries(self, lane: ProducerLane, batch: Batch, since: float) -> list[Answer]:
        failures = 0
        uncertain = False
        while True:
            try:
                answers = await self._backend.append(batch)
                if uncertain:
                    _check_room(answers)
                return answers
            except NotConfirmed:
                raise  # the store has taken the batch, so it is not sent again
            except BackendUnavailable as error:
                uncertain = uncertain or error.uncertain
                failures += 1
                pause = backoff(failures)
                passes = uncertain or error.transient
                if not passes or time.monotonic() + pause > lane.until(since):
                    error.uncertain = uncertain
                    raise
                lane.error = error
                await asyncio.sleep(pause)

    def _watch(self, until: float) -> None:
        """Look at `until` for callers that are out of time. There is one timer for all of them: a timer for
        each message would cost more than some stores do."""
        delay = max(0.0, until - time.monotonic())
        self._watchdog = asyncio.get_running_loop().call_later(delay, self._look_for_late)

    def _look_for_late(self) -> None:
        self._watchdog = None
        now = time.monotonic()
        left: list[float] = []
        for lane in self._lanes.values():
            if lane.direct and lane.until(lane.since) <= now:
                lane.give_up()
            elif lane.direct:
                left.append(lane.until(lane.since))
            for request in lane.waiting:
                if lane.until(request.since) <= now:
                    request.fail(lane.out_of_time())
                else:
                    left.append(lane.until(request.since))
        if left:
            self._watch(min(left))


def _rest(lane: ProducerLane, sender: BatchSender) -> None:
    lane.starting = False
    lane.sending -= 1
    sender.task = None


def _check_room(answers: list[Answer]) -> None:
    """Raise for a batch that was sent before, if the store has no room. Such a store refuses a batch before
    it looks whether this is a repeat. So its answer does not say that the batch was not stored."""
    for answer in answers:
        if answer.why:
            raise BackendUnavailable(
                f"the store has no room for more ({answer.why}), and an earlier answer was lost",
                uncertain=True,
            )


def _new_request(messages: list[Message], total: int, since: float) -> AppendRequest:
    return AppendRequest(messages, total, asyncio.get_running_loop().create_future(), since)


async def _answer_in_turns(lane: ProducerLane, parts: BatchParts, answers: list[Answer]) -> None:
    """Answer a crowd in two halves: the next messages of the first half are sent while the second half is
    woken."""
    half = len(parts) // 2 if len(parts) >= CROWD and len(lane.tasks) < len(lane.senders) else 0
    position = _answer_each(parts[:half], answers, 0)
    try:
        if half:
            await asyncio.sleep(0)
    finally:
        _answer_each(parts[half:], answers, position)


def _answer_each(parts: BatchParts, answers: list[Answer], position: int) -> int:
    for request, part in parts:
        request.answer(answers[position : position + len(part)])
        position += len(part)
    return position


def _fail_each(parts: BatchParts, error: NotConfirmed) -> None:
    """Raise the error in each caller, with the answers for its own messages."""
    position = 0
    for request, part in parts:
        request.answers += error.answers[position : position + len(part)]
        position += len(part)
        request.fail(NotConfirmed(str(error), answers=request.answers))
