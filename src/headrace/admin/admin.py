"""The methods of `app.admin`. The arguments `queue=`, `topic=` and `group=` name a queue, all groups of a
topic, or one of them. Without any of them a method covers all queues and groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from headrace.core.errors import ConfigurationError, InvalidPayload, UnverifiedPayload
from headrace.core.messages.message import (
    GIVEN_KEY,
    Envelope,
    Stream,
    decode_envelope,
    encode_envelope,
    group_stream,
)
from headrace.core.messages.outcome import DeadReason
from headrace.core.records.answers import CancelAnswer, ReplayAnswer, Wanted
from headrace.core.records.findings import Finding
from headrace.core.records.job_info import JobInfo, job_info, newest_first
from headrace.core.records.record import DeadLetter, JobStatus, Page, Record, WorkerInfo
from headrace.core.records.traffic import KEPT_MINUTES
from headrace.core.rules.layout import checked_partitions
from headrace.core.runtime.clock import microseconds
from headrace.core.topics.start import StartAt, start_of
from headrace.core.values.codec import AppCodec
from headrace.core.values.decoding import DECODE_ERRORS
from headrace.core.values.names import checked_name
from headrace.core.values.whole_numbers import positive_number
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.app_loop.retrying import with_retries
from headrace.engine.registry import Registry
from headrace.engine.streams import StreamRouter

from .contents import Contents, contents_of
from .dead_letters import DeadLetters, Replayed, chosen_letters, dead_filter, listed
from .doctor import Doctor
from .info import QueueInfo, TopicInfo, Traffic, no_such_group, queue_info, topic_info, traffic_of
from .place import Place, attempt, checked_place, undamaged
from .repeatable import Counted, RepeatableSteps
from .tail import Tail

#: Messages that one step of a store ends.
STEP = 200

#: `(id, envelope, args, kwargs)` → the envelope with other arguments.
EditEnvelope = Callable[[str, Envelope, Sequence[Any], Mapping[str, Any]], Envelope]


class Admin:
    """Made by the app."""

    def __init__(
        self,
        app_loop: AppLoop,
        registry: Registry,
        *,
        edit_envelope: EditEnvelope,
        mark_ttl: float,
        codec: AppCodec | None = None,
    ) -> None:
        self._app_loop = app_loop
        self._registry = registry
        self._edit_envelope = edit_envelope
        self._codec = codec
        self._mark_us = microseconds(mark_ttl)

    @property
    def _backend(self) -> StreamRouter:
        return self._app_loop.backend  # asked for each time: every event loop has its own

    # --- looking -----------------------------------------------------------------------------------------

    async def queues(self) -> list[QueueInfo]:
        """Every queue the store knows, by name."""
        return await self._app_loop.repeat(self._queues)

    async def topics(self) -> list[TopicInfo]:
        """Every topic the store knows, by name, each with its groups."""
        return [topic_info(record) for record in await self._app_loop.ask(lambda store: store.topics())]

    async def jobs(
        self,
        queue: str | None = None,
        *,
        topic: str | None = None,
        group: str | None = None,
        state: JobStatus | str | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[JobInfo]:
        """Jobs of a queue (default: `default`), or events of a group, at most `limit`. The cursor of the page
        gets the next page. Running ones come first, and on each page then the newest."""
        stream = _one_stream(checked_place(queue, topic, group))
        status = None if state is None else _status(state)
        limit = positive_number("limit", limit)
        page = await self._app_loop.ask(
            lambda store: store.messages(stream, status=status, task=task, cursor=cursor, limit=limit)
        )
        jobs = map(job_info, page)
        return Page(tuple(jobs if status else sorted(jobs, key=newest_first)), page.cursor)

    async def job(
        self, id: str, *, queue: str | None = None, topic: str | None = None, group: str | None = None
    ) -> JobInfo | None:
        """All that is known of one job, or of an event of a group. None: it is unknown."""
        where = checked_place(queue, topic, group)
        found = await self._app_loop.ask(lambda store: where.find(store, id))
        return job_info(found[0]) if found else None

    async def holder(self, key: str, *, queue: str | None = None) -> JobInfo | None:
        """The job that holds a unique key now, in one queue or in any. None: the key is free."""
        found = await self._app_loop.repeat(self._holder, key, checked_place(queue, None, None))
        return job_info(found) if found else None

    async def contents(
        self, id: str, *, queue: str | None = None, topic: str | None = None, group: str | None = None
    ) -> Contents | None:
        """The contents of a job or an event. None: it is unknown, or it has ended and they are not kept."""
        where = checked_place(queue, topic, group)
        found = await self._app_loop.ask(lambda store: where.find(store, id))
        return contents_of(found[0], self._codec) if found else None

    async def workers(self) -> list[WorkerInfo]:
        """Workers that announced themselves within the last minute."""
        return await self._app_loop.ask(lambda store: store.workers())

    async def traffic(self, minutes: int = 60) -> list[Traffic]:
        """Successes and failures in each of the last minutes, at most two hours."""
        minutes = min(positive_number("minutes", minutes), KEPT_MINUTES)
        records = await self._app_loop.ask(lambda store: store.traffic(minutes))
        return [traffic_of(record) for record in records]

    async def doctor(self) -> list[Finding]:
        """What is wrong with the store, its queues, topics and workers: a line each, with the remedy. A store
        that cannot be opened raises its usual error."""
        return await self._app_loop.call(self._examine)

    def tail(
        self, topic: str, *, since: StartAt | None = None, group: str | None = None, follow: bool = True
    ) -> Tail:
        """Follow a topic: `async for event in app.admin.tail("orders", since="beginning")`.

        It begins with new events, or at `since`, or with the first event that a `group` has not begun to
        handle. Without `follow` it ends after the last event. No position of a group changes.
        """
        if since is not None and group is not None:
            raise ConfigurationError("give since= or group=, not both: a group says where to begin")
        return Tail(
            self._app_loop,
            checked_name("topic", topic),
            start_of("new" if since is None else since, "since"),
            group=None if group is None else checked_name("group", group),
            follow=follow,
            codec=self._codec,
        )

    # --- queues and groups -------------------------------------------------------------------------------

    async def pause(self, queue: str) -> None:
        """Start no more jobs of this queue anywhere. Running ones go on."""
        stream = _queue(queue)
        await self._app_loop.ask(lambda store: store.pause(stream, paused=True))

    async def resume(self, queue: str) -> None:
        stream = _queue(queue)
        await self._app_loop.ask(lambda store: store.pause(stream, paused=False))

    async def purge(self, queue: str) -> Counted:
        """Cancel all jobs of this queue that wait, are scheduled or retrying. The answer is their number."""
        return await self._app_loop.carry_out(self._purge, _queue(queue))

    async def split(self, queue: str, partitions: int) -> None:
        """Spread new jobs of a queue over so many parts while the queue is in use. Waiting jobs stay in
        their part. The split is done when this returns. If it is interrupted, the next producer that enqueues
        finishes it."""
        stream, parts = _queue(queue), checked_partitions(partitions)
        await self._app_loop.ask(lambda store: store.split(stream, parts))

    async def pause_group(self, topic: str, group: str) -> None:
        """Give no more events to this group. Running handlers go on; all other events wait."""
        await self._app_loop.repeat(partial(self._pause_group, paused=True), _group(topic, group))

    async def resume_group(self, topic: str, group: str) -> None:
        await self._app_loop.repeat(partial(self._pause_group, paused=False), _group(topic, group))

    async def reset_group(self, topic: str, group: str, *, to: StartAt) -> None:
        """Move a group in the log: to `new` events, to the `beginning`, to the id of an event, or to a time.
        Events that the group has drawn already stay with it and are not delivered twice."""
        stream, start = _group(topic, group), start_of(to, "to")
        if not await self._app_loop.ask(lambda store: store.reset(stream, start)):
            raise no_such_group(topic, group)

    async def remove_group(self, topic: str, group: str) -> bool:
        """Remove a group with all its events and dead letters. False: there is no such group. The next worker
        that starts with a subscription of this group creates it again."""
        return await self._app_loop.carry_out(self._remove_group, _group(topic, group))

    # --- dead letters ------------------------------------------------------------------------------------

    async def dead(
        self,
        *,
        queue: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[DeadLetter]:
        """Dead letters of queues, then of groups, the latest of each first. The `task` of an event is its
        kind."""
        where, only = checked_place(queue, topic, group), dead_filter(task, reason)
        limit = positive_number("limit", limit)
        return await self._app_loop.ask(lambda store: DeadLetters(store).list(where, only, cursor, limit))

    async def replay(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
    ) -> Replayed:
        """Run dead letters again, those of `ids` or those that match. Each keeps its id, and its attempts
        start at zero. An event goes only to the group in which it died."""
        chosen = chosen_letters(ids, checked_place(queue, topic, group), task, reason)
        return await self._app_loop.carry_out(lambda: DeadLetters(self._backend).replay(chosen))

    async def discard(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
    ) -> Counted:
        """Delete dead letters for good. The answer is their number."""
        chosen = chosen_letters(ids, checked_place(queue, topic, group), task, reason)
        return await self._app_loop.carry_out(lambda: DeadLetters(self._backend).discard(chosen))

    # --- one job, or one event of a group ----------------------------------------------------------------

    async def cancel(
        self,
        ids: Sequence[str],
        *,
        queue: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> int:
        """Cancel jobs, or events for their groups. The answer is how many could still be cancelled."""
        return await self._app_loop.carry_out(self._cancel, listed(ids), checked_place(queue, topic, group))

    async def retry_now(
        self, id: str, *, queue: str | None = None, topic: str | None = None, group: str | None = None
    ) -> bool:
        """Run a scheduled, retrying or dead job now, or such an event in its groups. False: it is in another
        state."""
        return await self._app_loop.carry_out(self._retry_now, id, checked_place(queue, topic, group))

    async def edit(
        self,
        id: str,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
    ) -> bool:
        """Change the arguments of a scheduled, retrying or dead job. They must fit its task. False: the job
        is in another state. Events cannot be edited."""
        return await self._app_loop.carry_out(
            self._edit, id, args, kwargs or {}, checked_place(queue, None, None)
        )

    # --- on the app's loop -------------------------------------------------------------------------------

    async def _queues(self) -> list[QueueInfo]:
        streams = await Place().streams(self._backend)
        queues = [each for each in streams if each.kind == "queue"]
        return undamaged([await attempt(self._queue_info(each)) for each in queues])

    async def _queue_info(self, stream: Stream) -> QueueInfo:
        layout = await self._backend.layout(stream)
        return queue_info(stream, await self._backend.counts(stream), layout.current.parts)

    async def _holder(self, key: str, where: Place) -> Record | None:
        queues = [stream for stream in await where.streams(self._backend) if stream.kind == "queue"]
        for stream in queues:
            wanted = [Wanted(key=stored) for stored in (GIVEN_KEY + key, key)]
            for id in await self._backend.holders(stream, wanted):
                found = await self._backend.get(stream, id) if id else None
                if found is not None:
                    return found
        return None

    async def _examine(self) -> list[Finding]:
        return await Doctor(self._backend, self._registry).examine()

    async def _purge(self, stream: Stream) -> Counted:
        steps, total = RepeatableSteps(), 0
        purge = partial(self._backend.purge, stream, mark_us=self._mark_us, limit=STEP)
        while ended := await steps.take(purge):
            total += ended
        return steps.counted(total)

    async def _pause_group(self, stream: Stream, *, paused: bool) -> None:
        if not await self._is_known(stream):
            raise no_such_group(stream.topic, stream.group)
        await self._backend.pause(stream, paused=paused)

    async def _remove_group(self, stream: Stream) -> bool:
        steps = RepeatableSteps()
        if not await steps.take(lambda: self._is_known(stream)):
            return False
        removed = await steps.take(lambda: self._backend.remove_stream(stream))
        return removed or steps.doubt is not None  # it was there, and is not any more

    async def _is_known(self, group: Stream) -> bool:
        topics = await self._backend.topics([group.topic])
        return any(each.stream == group for topic in topics for each in topic.groups)

    async def _cancel(self, ids: Sequence[str], where: Place) -> int:
        count = 0
        for id in ids:
            found = await with_retries(partial(where.find, self._backend, id))
            count += any([await self._cancelled(record) for record in found])
        return count

    async def _cancelled(self, record: Record) -> bool:
        steps, stream, id = RepeatableSteps(), record.stream, record.id
        answer = await steps.take(lambda: self._backend.cancel(stream, id, mark_us=self._mark_us))
        if answer is CancelAnswer.GONE and steps.doubt and not record.status.over:
            now = await steps.take(lambda: self._backend.get(stream, id))
            return now is not None and now.status is JobStatus.CANCELLED
        return answer is not CancelAnswer.GONE

    async def _retry_now(self, id: str, where: Place) -> bool:
        found = await with_retries(partial(where.find, self._backend, id))
        return any([await self._retried(record) for record in found])

    async def _retried(self, record: Record) -> bool:
        """After a lost answer: a record that was dead or not due, and is not any more, was retried."""
        steps, stream, id = RepeatableSteps(), record.stream, record.id
        if record.status is JobStatus.DEAD:
            [answer] = await steps.take(lambda: self._backend.replay(stream, [id]))
            gone = answer is ReplayAnswer.GONE
            return answer is ReplayAnswer.REPLAYED or (gone and steps.doubt is not None)
        hastened = await steps.take(lambda: self._backend.run_now(stream, id))
        was_waiting = record.status in (JobStatus.SCHEDULED, JobStatus.RETRYING)
        return hastened or (was_waiting and steps.doubt is not None)

    async def _edit(self, id: str, args: Sequence[Any], kwargs: Mapping[str, Any], where: Place) -> bool:
        found = await with_retries(partial(where.find, self._backend, id))
        if not found or found[0].body is None:
            return False
        [record, *_] = found
        if record.stream.kind == "group":
            raise ConfigurationError(
                f"{id} is an event, and events cannot be edited: publish a corrected one and discard this one"
            )
        steps, body = RepeatableSteps(), self._edited(record, args, kwargs)
        rewritten = await steps.take(lambda: self._backend.rewrite(record.stream, id, body))
        if not rewritten and steps.doubt is not None:
            raise steps.doubt  # it runs already, with the new arguments or with the old ones
        return rewritten

    def _edited(self, record: Record, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        try:
            envelope = decode_envelope(record.body or b"")
            return encode_envelope(self._edit_envelope(record.id, envelope, args, kwargs))
        except (*DECODE_ERRORS, UnverifiedPayload) as error:
            raise InvalidPayload(
                f"job {record.id} cannot be edited: its message cannot be read ({error})"
            ) from error


def _one_stream(where: Place) -> Stream:
    if where.topic is None:
        return Stream("queue", where.queue or "default")
    if where.group is None:
        raise ConfigurationError("give group=, too: each group of a topic has its own events")
    return group_stream(where.topic, where.group)


def _queue(name: str) -> Stream:
    return Stream("queue", checked_name("queue", name))


def _group(topic: str, group: str) -> Stream:
    return group_stream(checked_name("topic", topic), checked_name("group", group))


def _status(state: JobStatus | str) -> JobStatus:
    try:
        return JobStatus(state)
    except ValueError:
        raise ConfigurationError(f"{state!r} is not a state: use one of {', '.join(JobStatus)}") from None
