"""What a doctor says: how the store is, and what the queues, topics and workers in it suffer from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from headrace.core.clock import SECOND
from headrace.core.errors import BackendUnavailable, RequestRefused
from headrace.core.examination import Finding, ok, warn
from headrace.core.message import Stream
from headrace.core.record import Counts, JobStatus, WorkerInfo, moment
from headrace.core.topics import GroupRecord
from headrace.engine.registry import Registry
from headrace.engine.streams import StreamRouter

from .places import attempt

#: Dead letters that are many.
MANY_DEAD = 100_000

#: A group lags when so many events wait for it, or the first of them for so many microseconds.
LAG, LAG_AGE = 10_000, 300 * SECOND

#: A worker that did not ask for work for so long, though it has room, is quiet.
QUIET = timedelta(seconds=30)

#: Jobs of each queue whose task names are looked at.
SAMPLE = 100

#: Names that a line tells; the others are counted.
NAMED = 5


class Place(msgspec.Struct, frozen=True):
    """A queue or a group, and what is in it. `waiting` includes what a group has not drawn yet."""

    stream: Stream
    counts: Counts
    waiting: int


class Doctor:
    def __init__(self, backend: StreamRouter, registry: Registry) -> None:
        self._backend = backend
        self._registry = registry

    async def examine(self) -> list[Finding]:
        """The store first, then what is in it; the order is always the same."""
        return [*await self._backend.examine(), *await self._contents()]

    async def _contents(self) -> list[Finding]:
        try:
            return await self._examine_contents()
        except BackendUnavailable as error:
            return [warn("contents", f"they cannot be looked at: {error}", "see the lines above")]

    async def _examine_contents(self) -> list[Finding]:
        workers = await self._backend.workers()
        streams = [stream for stream in await self._backend.streams() if stream.kind != "topic"]
        answers = [(stream, await attempt(self._backend.counts(stream))) for stream in streams]
        counted = [(stream, each) for stream, each in answers if not isinstance(each, RequestRefused)]
        queues = [
            Place(stream, counts, counts.queued + counts.due)
            for stream, counts in counted
            if stream.kind == "queue"
        ]
        groups = [group for topic in await self._backend.topics() for group in topic.groups]
        places = [*queues, *map(_place_of_group, groups)]
        now_us = (await self._backend.schedules([])).now_us  # on the store's clock, as times of messages are
        return [
            *self._damaged(answers),
            self._workers(workers, places),
            self._served(workers, places),
            self._paused(places),
            self._groups(groups, now_us),
            self._dead(places),
            *await self._partitions(),
            *await self._tasks(queues),
        ]

    def _damaged(self, answers: Sequence[tuple[Stream, Counts | RequestRefused]]) -> list[Finding]:
        damaged = [(stream, each) for stream, each in answers if isinstance(each, RequestRefused)]
        if not damaged:
            return []
        told = _named(f"{stream.kind} {stream.name}" for stream, _ in damaged)
        return [warn("contents", f"cannot be looked at: {told}: {damaged[0][1]}", "see the lines above")]

    def _workers(self, workers: Sequence[WorkerInfo], places: Sequence[Place]) -> Finding:
        if not workers:
            waiting = sum(place.waiting for place in places)
            if not waiting:
                return ok("workers", "no worker is running, and nothing waits")
            return warn("workers", f"no worker is running, and work waits: {waiting:,} in all", _START)
        quiet = [worker.consumer for worker in workers if _is_quiet(worker)]
        if quiet:
            return warn(
                "workers",
                f"{len(quiet)} of {len(workers)} have room, but did not ask for work lately: {_named(quiet)}",
                "look at their logs, and for code that blocks their event loop",
            )
        return ok("workers", f"{len(workers)} at work")

    def _served(self, workers: Sequence[WorkerInfo], places: Sequence[Place]) -> Finding:
        served = {stream for worker in workers for stream in worker.streams}
        alone = [place for place in places if place.waiting and place.stream not in served]
        if alone:
            told = _named(f"{place.stream.name} ({place.waiting:,})" for place in alone)
            return warn("served", f"work waits where no worker serves it: {told}", _START)
        return ok("served", "wherever work waits there is a worker for it")

    def _paused(self, places: Sequence[Place]) -> Finding:
        paused = [place for place in places if place.counts.paused and place.waiting]
        if paused:
            told = _named(f"{place.stream.name} ({place.waiting:,})" for place in paused)
            return warn(
                "paused", f"paused while work waits: {told}", "headrace resume, or headrace topics resume"
            )
        return ok("paused", "nothing that has work is paused")

    def _groups(self, groups: Sequence[GroupRecord], now_us: int) -> Finding:
        late = [group for group in groups if _lags(group, now_us)]
        if late:
            told = _named(f"{group.stream.name} ({group.lag + group.counts.queued:,})" for group in late)
            return warn("groups", f"behind: {told}", "run more workers of these groups, or faster handlers")
        return ok("groups", f"{len(groups)} up to date" if groups else "no topic has a group")

    def _dead(self, places: Sequence[Place]) -> Finding:
        total = sum(place.counts.dead for place in places)
        if total < MANY_DEAD:
            return ok("dead letters", f"{total:,}")
        worst = sorted(places, key=lambda place: -place.counts.dead)
        told = _named(f"{place.stream.name} ({place.counts.dead:,})" for place in worst if place.counts.dead)
        return warn(
            "dead letters",
            f"{total:,}, which nobody removes but you: {told}",
            "headrace dead, then headrace dead replay or discard",
        )

    async def _partitions(self) -> list[Finding]:
        """Where the code declares another number of parts than the store has. What is stored counts."""
        declared = self._backend.declared
        if not declared:
            return []
        stored = {stream: (await self._backend.layout(stream)).current.parts for stream in declared}
        differ = [stream for stream, parts in declared.items() if stored[stream] != parts]
        if differ:
            told = _named(
                f"{stream.name} ({declared[stream]} declared, {stored[stream]} stored)" for stream in differ
            )
            remedy = " or ".join(dict.fromkeys(_SPLIT[stream.kind] for stream in differ))
            return [warn("partitions", f"what the code says is not what is stored: {told}", remedy)]
        return [ok("partitions", f"{len(declared)} declared, and stored so")]

    async def _tasks(self, queues: Sequence[Place]) -> list[Finding]:
        """Names that wait and that this app does not know. Without an app there is nothing to compare."""
        if not list(self._registry):
            return []
        unknown: dict[str, str] = {}
        for place in queues:
            if place.stream.name in self._registry.queues() and place.counts.queued:
                unknown |= {task: place.stream.name for task in await self._unknown(place.stream)}
        if unknown:
            told = _named(f"{task} in {queue}" for task, queue in sorted(unknown.items()))
            return [
                warn(
                    "tasks",
                    f"jobs wait for tasks that this app does not have: {told}",
                    "deploy the code that has them, or mend their name=; after an hour they are dead letters",
                )
            ]
        return [ok("tasks", "this app knows the tasks of the jobs that wait, as far as was looked")]

    async def _unknown(self, stream: Stream) -> set[str]:
        page = await self._backend.records(stream, status=JobStatus.QUEUED, limit=SAMPLE)
        return {record.task for record in page if record.task not in self._registry}


_START = "start one: headrace worker MODULE:APP"

_SPLIT = {
    "queue": "headrace split MODULE:APP QUEUE PARTITIONS, or mend partitions= in the code",
    "topic": "mend partitions= in the code: the number was fixed when the topic was made",
}


def _is_quiet(worker: WorkerInfo) -> bool:
    last = moment(worker.polled_us or worker.started_us)
    has_room = len(worker.running) < worker.concurrency
    return has_room and last is not None and datetime.now(UTC) - last > QUIET


def _lags(group: GroupRecord, now_us: int) -> bool:
    is_old = group.oldest_us > 0 and now_us - group.oldest_us > LAG_AGE
    return is_old or group.lag + group.counts.queued >= LAG


def _place_of_group(group: GroupRecord) -> Place:
    return Place(group.stream, group.counts, group.lag + group.counts.queued + group.counts.due)


def _named(names: Iterable[str]) -> str:
    several = list(names)
    more = f" and {len(several) - NAMED:,} more" if len(several) > NAMED else ""
    return ", ".join(several[:NAMED]) + more
