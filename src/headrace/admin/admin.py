"""The methods of `app.admin`. Each checks its arguments, and a part of this package does the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from headrace.admin.looking.contents import Contents, contents_of
from headrace.admin.looking.doctor import Doctor
from headrace.admin.looking.info import (
    QueueInfo,
    SealInfo,
    TopicInfo,
    Traffic,
    all_queues,
    seal_info,
    topic_info,
    traffic_of,
)
from headrace.admin.looking.job_listing import JobListing, listed_jobs, listed_status
from headrace.admin.looking.outboxes import OutboxInfo, OutboxReader
from headrace.admin.looking.tail import Tail, tail_of
from headrace.admin.steering.cleaning import Cleaning, cleanable_states
from headrace.admin.steering.dead_letters import (
    DeadLetterVerbs,
    Replayed,
    chosen_letters,
    dead_filter,
    listed,
)
from headrace.admin.steering.pausing import PauseChange
from headrace.admin.steering.repeatable import Counted
from headrace.admin.steering.steering import EditEnvelope, Steering, edited_body, refuse_ordered_split
from headrace.core.encoding.codec import AppCodec
from headrace.core.errors import no_such_group
from headrace.core.limits.paused_tasks import is_resumed
from headrace.core.messages.outcome import DeadReason
from headrace.core.outbox.database import OutboxDatabase
from headrace.core.records.findings import Finding
from headrace.core.records.job_info import JobInfo, job_info
from headrace.core.records.record import DeadLetter, JobStatus, Page, WorkerInfo
from headrace.core.records.traffic import KEPT_MINUTES
from headrace.core.rules.layout import checked_partitions
from headrace.core.runtime.clock import microseconds
from headrace.core.topics.start import StartAt, start_of
from headrace.core.values.durations import Duration, seconds
from headrace.core.values.whole_numbers import positive_number
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.declared.registry import Registry
from headrace.engine.streams import StreamRouter

from .limits import LimitInfo, LimitOverride, limit_info, no_such_limit
from .place import checked_group, checked_place, one_stream, queue_stream


class Admin:
    """`app.admin`: looks at the store, and steers it.

    The arguments `queue=`, `topic=` and `group=` name a queue, all groups of a topic, or one of them. Without
    any of them a method covers all queues and groups.
    """

    def __init__(
        self,
        app_loop: AppLoop,
        registry: Registry,
        *,
        edit_envelope: EditEnvelope,
        end_record_ttl: float,
        codec: AppCodec | None = None,
        outbox: OutboxDatabase | None = None,
    ) -> None:
        self._app_loop = app_loop
        self._outboxes = OutboxReader(app_loop, outbox)
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

    @property
    def _cleaning(self) -> Cleaning:
        return Cleaning(self._backend, self._ttl_us)

    # --- looking -----------------------------------------------------------------------------------------

    async def seal(self) -> SealInfo | None:
        """Where the content of the store moves, or was moved, by `headrace move`. None: it is in use."""
        return seal_info(await self._app_loop.ask(lambda store: store.seal()))

    async def queues(self) -> Page[QueueInfo]:
        """Every queue the store knows, by name."""
        return Page(await self._app_loop.ask(all_queues))

    async def topics(self) -> Page[TopicInfo]:
        """Every topic the store knows, by name, each with its groups."""
        return Page(map(topic_info, await self._app_loop.ask(lambda store: store.topics())))

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
        """Jobs of a queue, or events of a group. Running ones come first, and on each page then the newest.
        With the state of jobs that are over, the history of the queue is listed after what the store holds.

        - `queue`: the queue. None: the queue `default`
        - `topic`: the topic of a group, in place of a queue
        - `group`: the group of this topic
        - `state`: only jobs with this status. None: all
        - `task`: only jobs of this task, by its name. None: all
        - `cursor`: the cursor of the page before. None: the first page
        - `limit`: how many jobs a page has at most
        """
        stream = one_stream(checked_place(queue, topic, group))
        status = None if state is None else listed_status(state)
        limit = positive_number("limit", limit)
        listing = JobListing(stream, status, task, limit)
        page = await self._app_loop.ask(lambda store: listing.page(store, cursor))
        return listed_jobs(page, status, self._codec)

    async def job(
        self, id: str, *, queue: str | None = None, topic: str | None = None, group: str | None = None
    ) -> JobInfo | None:
        """All that is known of one job, or of an event of a group. None: it is unknown."""
        where = checked_place(queue, topic, group)
        found = await self._app_loop.ask(lambda store: where.find(store, id))
        return job_info(found[0], self._codec) if found else None

    async def holder(self, key: str, *, queue: str | None = None) -> JobInfo | None:
        """The job that holds a unique key now, in one queue or in any. None: the key is free."""
        where = checked_place(queue, None, None)
        found = await self._app_loop.ask(lambda store: where.holder(store, key))
        return job_info(found, self._codec) if found else None

    async def contents(
        self, id: str, *, queue: str | None = None, topic: str | None = None, group: str | None = None
    ) -> Contents | None:
        """The contents of a job or an event. None: it is unknown, or it has ended and they are not kept."""
        where = checked_place(queue, topic, group)
        found = await self._app_loop.ask(lambda store: where.find(store, id))
        return contents_of(found[0], self._codec) if found else None

    async def workers(self) -> Page[WorkerInfo]:
        """Workers that announced themselves within the last minute."""
        return Page(await self._app_loop.ask(lambda store: store.workers()))

    async def outboxes(self) -> Page[OutboxInfo]:
        """What waits to be relayed: in outboxes of groups that feed tasks, and in the database of
        `App(outbox=)`."""
        return Page(await self._outboxes.outboxes())

    async def traffic(self, minutes: int = 60) -> list[Traffic]:
        """Successes and failures in each of the last minutes, at most two hours."""
        minutes = min(positive_number("minutes", minutes), KEPT_MINUTES)
        records = await self._app_loop.ask(lambda store: store.traffic(minutes))
        return [traffic_of(record) for record in records]

    async def doctor(self) -> list[Finding]:
        """What is wrong with the store, its queues, topics and workers: a line each, with the remedy. A store
        that cannot be opened raises its usual error."""
        return await self._app_loop.call(
            lambda: Doctor(self._backend, self._registry, self._outboxes).examine()
        )

    def tail(
        self, topic: str, *, since: StartAt | None = None, group: str | None = None, follow: bool = True
    ) -> Tail:
        """Follow a topic: `async for event in app.admin.tail("orders", since="beginning")`.

        It begins with new events, or at `since`, or with the first event that a `group` has not begun to
        handle. Without `follow` it ends after the last event. No position of a group changes.
        """
        return tail_of(self._app_loop, topic, since=since, group=group, follow=follow, codec=self._codec)

    # --- limits ------------------------------------------------------------------------------------------

    async def limits(self, *, counted: bool = True) -> Page[LimitInfo]:
        """Every limit that workers have declared, by name, and what it counts. Without `counted` the counts
        are 0; this costs less while very many jobs wait."""
        records = await self._app_loop.ask(lambda store: store.limits(counted=counted))
        return Page(limit_info(record) for record in records if not is_resumed(record))

    async def set_limit(
        self, name: str, *, rate: str | None = None, burst: int | None = None, max_running: int | None = None
    ) -> None:
        """Override the figures of a limit for all workers, until `clear_limit`. What is not given stays as it
        is; only a new rate without `burst` has its usual burst. With `max_running=0`, no more of its jobs
        start."""
        override = LimitOverride(name, rate, burst, max_running)
        declared = self._registry.limits.figures_of(name)
        await self._app_loop.ask(lambda store: override.apply(store, declared))

    async def clear_limit(self, name: str) -> None:
        """Undo `set_limit`: the declared figures hold again."""
        declared = self._registry.limits.figures_of(name)
        if not await self._app_loop.ask(lambda store: store.set_limit(name, None)) and declared is None:
            raise no_such_limit(name)

    # --- queues and groups -------------------------------------------------------------------------------

    async def pause(self, queue: str | None = None, *, task: str | None = None) -> None:
        """Start no more jobs of this queue or of this task anywhere. Running ones go on. The pause of a task
        holds within 3 seconds; its jobs stay queued, and wait for the limit `paused:TASK`."""
        await self._app_loop.ask(PauseChange(queue, task, paused=True).apply)

    async def resume(self, queue: str | None = None, *, task: str | None = None) -> None:
        """Let workers take jobs of a paused queue or task again."""
        await self._app_loop.ask(PauseChange(queue, task, paused=False).apply)

    async def purge(self, queue: str) -> Counted:
        """Cancel all jobs of this queue that wait, are scheduled or retrying. The answer is their number."""
        stream = queue_stream(queue)
        return await self._app_loop.carry_out(lambda: self._steering.purge(stream))

    async def clean(
        self, queue: str, *, state: JobStatus | str | None = None, older_than: Duration = 0
    ) -> Counted:
        """Remove the jobs of a queue in one state that are older than a time. The answer is their number.

        Jobs that wait (`queued`, `scheduled`, `retrying`) are cancelled; their age counts from enqueueing.
        Dead letters and what is kept of ended jobs (`succeeded`, `cancelled`, `expired`) are deleted; their
        age counts from the end. Without a state it removes what is kept of ended jobs. Dead letters and
        waiting jobs are removed only when their state is named; running jobs never."""
        stream, states = queue_stream(queue), cleanable_states(state)
        age = seconds("older_than", older_than)
        return await self._app_loop.carry_out(lambda: self._cleaning.clean(stream, states, age))

    async def remove_queue(self, name: str, force: bool = False) -> bool:
        """Remove a queue from the store. False: there is no such queue.

        It is refused while the queue holds anything except ended jobs. With `force`, everything in it is
        removed, also running jobs, dead letters and schedules. Stop its workers and producers first: they
        make the queue again."""
        stream = queue_stream(name)
        return await self._app_loop.carry_out(lambda: self._cleaning.remove_queue(stream, force=force))

    async def release_key(self, queue: str, key: str) -> bool:
        """Free a unique key whose holder is stuck. The holder stays as it is, and the next job with this key
        is no duplicate. False: no job holds the key."""
        stream = queue_stream(queue)
        return await self._app_loop.carry_out(lambda: self._cleaning.release_key(stream, key))

    async def split(self, queue: str, partitions: int) -> None:
        """Spread new jobs of a queue over so many parts while the queue is in use. Waiting jobs stay in
        their part. The split is done when this returns. If it is interrupted, the next producer that enqueues
        finishes it. A queue of tasks with `ordered_by` must be empty: jobs of one key stay in one part."""
        stream, parts = queue_stream(queue), checked_partitions(partitions)
        if queue in self._registry.ordered_queues:
            await self._app_loop.ask(lambda store: refuse_ordered_split(store, stream))
        await self._app_loop.ask(lambda store: store.split(stream, parts))

    async def pause_group(self, topic: str, group: str) -> None:
        """Give no more events to this group. Running handlers go on; all other events wait."""
        stream = checked_group(topic, group)
        await self._app_loop.repeat(lambda: self._steering.pause_group(stream, paused=True))

    async def resume_group(self, topic: str, group: str) -> None:
        """Let workers handle events for a paused group again."""
        stream = checked_group(topic, group)
        await self._app_loop.repeat(lambda: self._steering.pause_group(stream, paused=False))

    async def reset_group(self, topic: str, group: str, *, to: StartAt) -> None:
        """Move a group in the log: to `new` events, to the `beginning`, to the id of an event, or to a time.
        Events that the group has drawn already stay with it and are not delivered twice."""
        stream, start = checked_group(topic, group), start_of(to, "to")
        if not await self._app_loop.ask(lambda store: store.reset(stream, start)):
            raise no_such_group(topic, group)

    async def remove_group(self, topic: str, group: str) -> bool:
        """Remove a group with all its events and dead letters. False: there is no such group. The next worker
        that starts with a subscription of this group creates it again."""
        stream = checked_group(topic, group)
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
        """Dead letters of queues, then of groups, the latest of each first.

        - `queue`: only those of this queue. None: of all queues
        - `topic`: only those of this topic
        - `group`: only those of this group of the topic. None: of all its groups
        - `task`: only those of this task, by its name; the task of an event is its kind
        - `reason`: only those that died for this reason, such as `"exhausted"`
        - `cursor`: the cursor of the page before. None: the first page
        - `limit`: how many dead letters a page has at most
        """
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
        """Run dead letters again, those of `ids` or those that match, in the order in which they died. Each
        keeps its id, and its attempts start at zero. An event goes only to the group in which it died.

        - `ids`: the ids of the dead letters, in place of a filter
        - `queue`: only those of this queue
        - `topic`: only those of this topic
        - `group`: only those of this group of the topic
        - `task`: only those of this task, by its name
        - `reason`: only those that died for this reason
        """
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
        """Delete dead letters for good. The answer is their number.

        - `ids`: the ids of the dead letters, in place of a filter
        - `queue`: only those of this queue
        - `topic`: only those of this topic
        - `group`: only those of this group of the topic
        - `task`: only those of this task, by its name
        - `reason`: only those that died for this reason
        """
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
        """Change the arguments of a scheduled, retrying or dead job. They must fit its task. The job keeps
        its unique key, tenant, order key and the keys of its limits. False: the job is in another state.
        Events cannot be edited."""
        where, edited = (
            checked_place(queue, None, None),
            partial(edited_body, self._edit_envelope, args, kwargs or {}),
        )
        return await self._app_loop.carry_out(lambda: self._steering.edit(id, where, edited))
