"""The methods of `app.admin`. The arguments `queue=`, `topic=` and `group=` name a queue, all groups of a
topic, or one of them. Without any of them a method covers all queues and groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from headrace.core.errors import ConfigurationError, InvalidPayload, UnverifiedPayload
from headrace.core.messages.message import (
    Envelope,
    Stream,
    decode_envelope,
    encode_envelope,
    group_stream,
)
from headrace.core.messages.outcome import DeadReason
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
from headrace.engine.registry import Registry
from headrace.engine.streams import StreamRouter

from .contents import Contents, contents_of
from .dead_letters import DeadLetterVerbs, Replayed, chosen_letters, dead_filter, listed
from .doctor import Doctor
from .info import QueueInfo, TopicInfo, Traffic, all_queues, no_such_group, topic_info, traffic_of
from .place import Place, checked_place
from .repeatable import Counted
from .steering import Steering
from .tail import Tail

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
        end_record_ttl: float,
        codec: AppCodec | None = None,
    ) -> None:
        self._app_loop = app_loop
        self._registry = registry
        self._edit_envelope = edit_envelope
        self._codec = codec
        self._ttl_us = microseconds(end_record_ttl)

    @property
    def _backend(self) -> StreamRouter:
        return self._app_loop.backend  # asked for each time: every event loop has its own

    @property
    def _steering(self) -> Steering:
        return Steering(self._backend, self._ttl_us)

    # --- looking -----------------------------------------------------------------------------------------

    async def queues(self) -> list[QueueInfo]:
        """Every queue the store knows, by name."""
        return await self._app_loop.ask(all_queues)

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
        where = checked_place(queue, None, None)
        found = await self._app_loop.ask(lambda store: where.holder(store, key))
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
        return await self._app_loop.call(lambda: Doctor(self._backend, self._registry).examine())

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
        """Let workers take jobs from a paused queue again."""
        stream = _queue(queue)
        await self._app_loop.ask(lambda store: store.pause(stream, paused=False))

    async def purge(self, queue: str) -> Counted:
        """Cancel all jobs of this queue that wait, are scheduled or retrying. The answer is their number."""
        stream = _queue(queue)
        return await self._app_loop.carry_out(lambda: self._steering.purge(stream))

    async def split(self, queue: str, partitions: int) -> None:
        """Spread new jobs of a queue over so many parts while the queue is in use. Waiting jobs stay in
        their part. The split is done when this returns. If it is interrupted, the next producer that enqueues
        finishes it."""
        stream, parts = _queue(queue), checked_partitions(partitions)
        await self._app_loop.ask(lambda store: store.split(stream, parts))

    async def pause_group(self, topic: str, group: str) -> None:
        """Give no more events to this group. Running handlers go on; all other events wait."""
        stream = _group(topic, group)
        await self._app_loop.repeat(lambda: self._steering.pause_group(stream, paused=True))

    async def resume_group(self, topic: str, group: str) -> None:
        """Let workers handle events for a paused group again."""
        stream = _group(topic, group)
        await self._app_loop.repeat(lambda: self._steering.pause_group(stream, paused=False))

    async def reset_group(self, topic: str, group: str, *, to: StartAt) -> None:
        """Move a group in the log: to `new` events, to the `beginning`, to the id of an event, or to a time.
        Events that the group has drawn already stay with it and are not delivered twice."""
        stream, start = _group(topic, group), start_of(to, "to")
        if not await self._app_loop.ask(lambda store: store.reset(stream, start)):
            raise no_such_group(topic, group)

    async def remove_group(self, topic: str, group: str) -> bool:
        """Remove a group with all its events and dead letters. False: there is no such group. The next worker
        that starts with a subscription of this group creates it again."""
        stream = _group(topic, group)
        return await self._app_loop.carry_out(lambda: self._steering.remove_group(stream))

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
        return await self._app_loop.ask(lambda store: DeadLetterVerbs(store).list(where, only, cursor, limit))

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
        return await self._app_loop.carry_out(lambda: DeadLetterVerbs(self._backend).replay(chosen))

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
        return await self._app_loop.carry_out(lambda: DeadLetterVerbs(self._backend).discard(chosen))

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
        chosen, where = listed(ids), checked_place(queue, topic, group)
        return await self._app_loop.carry_out(lambda: self._steering.cancel(chosen, where))

    async def retry_now(
        self, id: str, *, queue: str | None = None, topic: str | None = None, group: str | None = None
    ) -> bool:
        """Run a scheduled, retrying or dead job now, or such an event in its groups. False: it is in another
        state."""
        where = checked_place(queue, topic, group)
        return await self._app_loop.carry_out(lambda: self._steering.retry_now(id, where))

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
        where, edited = checked_place(queue, None, None), partial(self._edited, args, kwargs or {})
        return await self._app_loop.carry_out(lambda: self._steering.edit(id, where, edited))

    def _edited(self, args: Sequence[Any], kwargs: Mapping[str, Any], record: Record) -> bytes:
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
