"""Looking and steering: what the command line and the dashboard stand on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from headrace.core.backend import CancelAnswer, DeadFilter, ReplayAnswer
from headrace.core.clock import microseconds
from headrace.core.codec import Codec
from headrace.core.errors import ConfigurationError, InvalidPayload
from headrace.core.info import JobInfo, job_info
from headrace.core.message import Stream, decode_envelope, encode_envelope
from headrace.core.names import checked_name
from headrace.core.number import positive_number
from headrace.core.outcome import DeadReason
from headrace.core.record import DeadLetter, JobStatus, Page, Record, WorkerInfo, moment
from headrace.core.secret import masked
from headrace.engine.home import Home

#: Messages that one step of a store ends, replays or discards.
STEP = 200

#: `(task, args, kwargs)` → payload bytes.
Encode = Callable[[str, Sequence[Any], Mapping[str, Any]], bytes]


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue and how many jobs are in each state."""

    name: str
    queued: int = 0
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0
    paused: bool = False
    oldest: datetime | None = None


class Replayed(int):
    """How many were replayed; `duplicates` stay dead, because another job holds their unique key by now."""

    duplicates: tuple[str, ...] = ()


class Contents(msgspec.Struct, frozen=True):
    """What a job carries, as plain data for people to read, with `***` for each secret.

    `problem`: why its arguments cannot be read.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    headers: dict[str, str] = {}
    problem: str = ""


class Admin:
    """The verbs of `app.admin`."""

    def __init__(self, home: Home, *, encode: Encode, mark_ttl: float, codec: Codec | None = None) -> None:
        self._home = home
        self._encode = encode
        self._codec = codec
        self._mark_us = microseconds(mark_ttl)

    async def queues(self) -> list[QueueInfo]:
        """Every queue the store knows, by name."""
        return await self._home.call(self._queues)

    async def jobs(
        self,
        queue: str = "default",
        *,
        state: JobStatus | str | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[JobInfo]:
        """Jobs of a queue, at most `limit`; the page's cursor asks for the next."""
        status = None if state is None else _status(state)
        limit = positive_number("limit", limit)
        page = await self._home.call(
            self._home.backend.records, _stream(queue), status=status, task=task, cursor=cursor, limit=limit
        )
        return Page(tuple(job_info(record) for record in page), page.cursor)

    async def job(self, id: str, *, queue: str | None = None) -> JobInfo | None:
        """All that is known of one job; None: nothing."""
        record = await self._home.call(self._find, id, queue)
        return None if record is None else job_info(record)

    async def contents(self, id: str, *, queue: str | None = None) -> Contents | None:
        """The arguments and headers of a job; None when it is unknown, or over and they are gone."""
        record = await self._home.call(self._find, id, queue)
        return None if record is None or record.body is None else _contents(record.body, self._codec)

    async def workers(self) -> list[WorkerInfo]:
        """Workers that announced themselves within the last minute."""
        return await self._home.call(self._home.backend.workers)

    async def pause(self, queue: str) -> None:
        """Start no more jobs of this queue anywhere. Running ones go on."""
        await self._home.call(self._home.backend.pause, _stream(queue), paused=True)

    async def resume(self, queue: str) -> None:
        await self._home.call(self._home.backend.pause, _stream(queue), paused=False)

    async def purge(self, queue: str) -> int:
        """Cancel everything of this queue that waits, is scheduled or retrying; answers how many."""
        return await self._home.call(self._purge, _stream(queue))

    async def dead(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[DeadLetter]:
        """Dead letters of one queue or of all, the latest of each queue first."""
        only = DeadFilter(task, None if reason is None else _reason(reason))
        return await self._home.call(self._dead, queue, only, cursor, positive_number("limit", limit))

    async def replay(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
    ) -> Replayed:
        """Run dead letters again, those of `ids` or those that match; each keeps its id and starts afresh."""
        return await self._home.call(self._replay, _chosen(ids, queue, task, reason))

    async def discard(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
    ) -> int:
        """Forget dead letters for good; answers how many."""
        return await self._home.call(self._discard, _chosen(ids, queue, task, reason))

    async def cancel(self, ids: Sequence[str], *, queue: str | None = None) -> int:
        """Cancel jobs; answers how many were still to be cancelled."""
        return await self._home.call(self._cancel, _listed(ids), queue)

    async def retry_now(self, id: str, *, queue: str | None = None) -> bool:
        """Run a scheduled, retrying or dead job now; False when it is none of these."""
        return await self._home.call(self._retry_now, id, queue)

    async def edit(
        self,
        id: str,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
    ) -> bool:
        """Give a scheduled, retrying or dead job other arguments; False when it is none of these."""
        return await self._home.call(self._edit, id, args, kwargs or {}, queue)

    async def _streams(self) -> list[Stream]:
        streams = await self._home.backend.streams()
        return sorted((each for each in streams if each.kind == "queue"), key=lambda stream: stream.name)

    async def _queues(self) -> list[QueueInfo]:
        return [await self._queue(stream) for stream in await self._streams()]

    async def _queue(self, stream: Stream) -> QueueInfo:
        counts = await self._home.backend.counts(stream)
        return QueueInfo(
            name=stream.name,
            queued=counts.queued,
            running=counts.running,
            scheduled=counts.scheduled,
            retrying=counts.retrying,
            dead=counts.dead,
            paused=counts.paused,
            oldest=moment(counts.oldest_us),
        )

    async def _find(self, id: str, queue: str | None) -> Record | None:
        streams = await self._streams() if queue is None else [_stream(queue)]
        found = await asyncio.gather(*(self._home.backend.look(stream, id) for stream in streams))
        return next((record for record in found if record is not None), None)

    async def _purge(self, stream: Stream) -> int:
        total = 0
        while ended := await self._home.backend.purge(stream, mark_us=self._mark_us, limit=STEP):
            total += ended
        return total

    async def _dead(
        self, queue: str | None, only: DeadFilter, cursor: str | None, limit: int
    ) -> Page[DeadLetter]:
        streams = await self._streams() if queue is None else [_stream(queue)]
        name, _, inner = (cursor or "").partition(" ")
        found: list[DeadLetter] = []
        for stream in streams:
            if stream.name < name:
                continue
            place = inner or None if stream.name == name else None
            while len(found) < limit:
                page = await self._home.backend.dead(
                    stream, only=only, cursor=place, limit=limit - len(found)
                )
                found += map(_with_arguments_only, page)
                place = page.cursor
                if place is None:
                    break
            else:
                return Page(tuple(found), f"{stream.name} {place or ''}")
        return Page(tuple(found))

    async def _dead_of(self, chosen: _Chosen) -> AsyncIterator[tuple[Stream, list[str]]]:
        """The chosen dead letters, stream by stream, in steps."""
        streams = await self._streams() if chosen.queue is None else [_stream(chosen.queue)]
        for stream in streams:
            if chosen.ids is not None:
                for start in range(0, len(chosen.ids), STEP):
                    yield stream, list(chosen.ids[start : start + STEP])
                continue
            async for ids in self._matching(stream, chosen.only):
                yield stream, ids

    async def _matching(self, stream: Stream, only: DeadFilter) -> AsyncIterator[list[str]]:
        # All ids first: what a step replays or discards must not shift the pages behind it.
        ids: list[str] = []
        cursor: str | None = None
        while True:
            page = await self._home.backend.dead(stream, only=only, cursor=cursor, limit=STEP)
            ids += [letter.id for letter in page]
            cursor = page.cursor
            if cursor is None:
                break
        for start in range(0, len(ids), STEP):
            yield ids[start : start + STEP]

    async def _replay(self, chosen: _Chosen) -> Replayed:
        count = 0
        duplicates: list[str] = []
        async for stream, ids in self._dead_of(chosen):
            answers = await self._home.backend.replay(stream, ids)
            count += answers.count(ReplayAnswer.REPLAYED)
            pairs = zip(ids, answers, strict=True)
            duplicates += [id for id, answer in pairs if answer is ReplayAnswer.DUPLICATE]
        replayed = Replayed(count)
        replayed.duplicates = tuple(duplicates)
        return replayed

    async def _discard(self, chosen: _Chosen) -> int:
        count = 0
        async for stream, ids in self._dead_of(chosen):
            count += await self._home.backend.discard(stream, ids)
        return count

    async def _cancel(self, ids: Sequence[str], queue: str | None) -> int:
        count = 0
        for id in ids:
            record = await self._find(id, queue)
            if record is not None:
                answer = await self._home.backend.cancel(record.stream, id, mark_us=self._mark_us)
                count += answer is not CancelAnswer.GONE
        return count

    async def _retry_now(self, id: str, queue: str | None) -> bool:
        record = await self._find(id, queue)
        if record is None:
            return False
        if record.status is JobStatus.DEAD:
            [answer] = await self._home.backend.replay(record.stream, [id])
            return answer is ReplayAnswer.REPLAYED
        return await self._home.backend.hasten(record.stream, id)

    async def _edit(self, id: str, args: Sequence[Any], kwargs: Mapping[str, Any], queue: str | None) -> bool:
        record = await self._find(id, queue)
        if record is None or record.body is None:
            return False
        try:
            envelope = decode_envelope(record.body)
        except msgspec.DecodeError as error:
            raise InvalidPayload(
                f"job {id} cannot be edited: its message cannot be read ({error})"
            ) from error
        payload = self._encode(envelope.task, args, kwargs)
        body = encode_envelope(msgspec.structs.replace(envelope, payload=payload))
        return await self._home.backend.rewrite(record.stream, id, body)


class _PlainArguments(msgspec.Struct, array_like=True):
    args: list[Any]
    kwargs: dict[str, Any] = {}


class _Chosen(msgspec.Struct, frozen=True):
    """Which dead letters a verb is about."""

    ids: Sequence[str] | None
    queue: str | None
    only: DeadFilter


def _chosen(
    ids: Sequence[str] | None, queue: str | None, task: str | None, reason: DeadReason | str | None
) -> _Chosen:
    if ids is None and queue is None and task is None and reason is None:
        raise ConfigurationError("say which dead letters: ids=, queue=, task= or reason=")
    if ids is not None and (task is not None or reason is not None):
        raise ConfigurationError("give ids=, or task= and reason=, not both")
    only = DeadFilter(task, None if reason is None else _reason(reason))
    return _Chosen(None if ids is None else _listed(ids), queue, only)


def _with_arguments_only(letter: DeadLetter) -> DeadLetter:
    """Stores keep whole bodies. The payload is the arguments in it, or all of it when it cannot be read."""
    try:
        payload = decode_envelope(letter.payload).payload
    except (msgspec.DecodeError, RecursionError):
        return letter
    return msgspec.structs.replace(letter, payload=payload)


def _contents(body: bytes, codec: Codec | None) -> Contents:
    try:
        envelope = decode_envelope(body)
    except (msgspec.DecodeError, RecursionError) as error:
        return Contents(problem=f"the message cannot be read: {error}")
    headers = envelope.headers or {}
    try:
        payload = envelope.payload if codec is None else codec.decode(envelope.payload)
        arguments = msgspec.msgpack.decode(payload, type=_PlainArguments, ext_hook=masked)
    except Exception as error:  # a codec may raise anything
        return Contents(headers=headers, problem=f"the arguments cannot be read: {error}")
    return Contents(tuple(arguments.args), arguments.kwargs, headers)


def _listed(ids: Sequence[str]) -> list[str]:
    if isinstance(ids, str):
        raise ConfigurationError(f"ids must be a list of ids, not the text {ids!r}")
    return list(ids)


def _stream(queue: str) -> Stream:
    return Stream("queue", checked_name("queue", queue))


def _status(state: JobStatus | str) -> JobStatus:
    try:
        return JobStatus(state)
    except ValueError:
        raise ConfigurationError(f"{state!r} is no state: use one of {', '.join(JobStatus)}") from None


def _reason(reason: DeadReason | str) -> DeadReason:
    try:
        return DeadReason(reason)
    except ValueError:
        raise ConfigurationError(f"{reason!r} is no reason: use one of {', '.join(DeadReason)}") from None
