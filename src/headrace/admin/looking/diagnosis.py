"""What is wrong with queues, groups and workers. The doctor, the dashboard and `headrace status --watch` show
the same problems, found with the same bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from headrace.core.messages.message import Stream, group_stream
from headrace.core.records.record import Counts, WorkerInfo, moment
from headrace.core.topics.topic import GroupRecord
from headrace.core.values.times import span
from headrace.core.values.whole_numbers import counted

from .info import QueueInfo, TopicInfo
from .outboxes import OutboxInfo

#: A queue or a group is late when its oldest message has waited for more seconds than this.
LATE_SECONDS: Final = 300.0

#: A group is late, too, when so many events wait for it.
LATE_EVENTS: Final = 10_000

#: The lines of the doctor that show problems of this module, in order.
CHECKS: Final = ("workers", "served", "paused", "queues", "groups", "dead letters", "outboxes")


class Workload(msgspec.Struct, frozen=True):
    """A queue or a group. `waiting` includes events that the group has not drawn from the log yet."""

    stream: Stream
    waiting: int = 0
    dead: int = 0
    paused: bool = False
    oldest: datetime | None = None

    @property
    def name(self) -> str:
        stream = self.stream
        return stream.name if stream.kind == "queue" else f"{stream.group} of {stream.topic}"

    @property
    def amount(self) -> str:
        return counted(self.waiting, "job" if self.stream.kind == "queue" else "event")


class Problem(msgspec.Struct, frozen=True):
    """Something that an operator should look at.

    `text` is a sentence of its own. The doctor puts all problems of a `check` on one line: the `heading`,
    then the `subject` of each. `stream`: the queue or group; None: it is about workers.
    """

    check: str
    text: str
    heading: str
    subject: str
    remedy: str
    stream: Stream | None = None


def workloads(queues: Iterable[QueueInfo], topics: Iterable[TopicInfo]) -> list[Workload]:
    return [
        *(
            Workload(Stream("queue", each.name), each.queued, each.dead, each.paused, each.oldest)
            for each in queues
        ),
        *(
            Workload(group_stream(topic.name, each.group), each.lag, each.dead, each.paused, each.oldest)
            for topic in topics
            for each in topic.groups
        ),
    ]


def queue_workload(stream: Stream, counts: Counts) -> Workload:
    """The workload of a queue, from its counts. Jobs that are due and not queued yet are part of it."""
    return Workload(stream, counts.queued + counts.due, counts.dead, counts.paused, moment(counts.oldest_us))


def group_workload(record: GroupRecord) -> Workload:
    counts = record.counts
    waiting = record.lag + counts.queued + counts.due
    return Workload(record.stream, waiting, counts.dead, counts.paused, moment(record.oldest_us))


def diagnose(
    loads: Sequence[Workload],
    workers: Sequence[WorkerInfo],
    outboxes: Sequence[OutboxInfo] = (),
    *,
    store_now: datetime | None = None,
) -> list[Problem]:
    """All problems, in the order of `CHECKS`. `store_now` is the time on the store's clock, by which messages
    wait; without it this machine's clock counts."""
    now = datetime.now(UTC)
    return [
        *_no_worker(loads, workers),
        *_quiet_workers(workers, now),
        *_unserved(loads, workers),
        *_paused(loads),
        *_late(loads, workers, store_now or now),
        *_dead(loads),
        *_outboxes(outboxes),
    ]


def _no_worker(loads: Sequence[Workload], workers: Sequence[WorkerInfo]) -> Iterator[Problem]:
    waiting = sum(load.waiting for load in loads)
    if waiting and not workers:
        heading, subject = "no worker is running, and work waits", f"{waiting:,} in all"
        yield Problem("workers", f"{heading}: {subject}", heading, subject, _START)


def _quiet_workers(workers: Sequence[WorkerInfo], now: datetime) -> Iterator[Problem]:
    for worker in workers:
        if worker.is_quiet(now):
            since = span(worker.seconds_since_poll(now))
            yield Problem(
                "workers",
                f"worker {worker.consumer} has not asked for work for {since}",
                "workers have room, but did not ask for work lately",
                worker.consumer,
                "look at their logs, and for code that blocks their event loop",
            )


def _unserved(loads: Sequence[Workload], workers: Sequence[WorkerInfo]) -> Iterator[Problem]:
    served = _served(workers)
    for load in loads:
        if load.waiting and load.stream not in served:
            text = f"{load.name} has {load.amount} waiting and no worker"
            yield _of("served", load, text, "work waits, and no worker serves it", _START)


def _paused(loads: Sequence[Workload]) -> Iterator[Problem]:
    for load in loads:
        if load.paused and load.waiting:
            text = f"{load.name} is paused with {load.amount} waiting"
            remedy = "headrace resume, or headrace topics resume"
            yield _of("paused", load, text, "paused while work waits", remedy)


def _late(loads: Sequence[Workload], workers: Sequence[WorkerInfo], now: datetime) -> Iterator[Problem]:
    """Work that waits for too long although a worker serves it. `_paused` and `_unserved` find other work."""
    served = _served(workers)
    for load in loads:
        is_group = load.stream.kind == "group"
        waited = (now - load.oldest).total_seconds() if load.oldest else 0.0
        if load.paused or load.stream not in served:
            continue
        if waited > LATE_SECONDS or (is_group and load.waiting >= LATE_EVENTS):
            oldest = f", the oldest for {span(waited)}" if load.oldest else ""
            text = f"{load.name} does not keep up: {load.amount} waiting{oldest}"
            remedy = "run more workers, or make the handlers faster"
            yield _of("groups" if is_group else "queues", load, text, "behind", remedy)


def _dead(loads: Sequence[Workload]) -> Iterator[Problem]:
    for load in sorted(loads, key=lambda load: -load.dead):
        if load.dead:
            subject = f"{load.stream.name} ({load.dead:,})"
            yield Problem(
                "dead letters",
                f"{load.dead:,} dead in {load.name}",
                "they stay until you replay or discard them",
                subject,
                "headrace dead, then headrace dead replay or discard",
                load.stream,
            )


def _outboxes(outboxes: Sequence[OutboxInfo]) -> Iterator[Problem]:
    for outbox in outboxes:
        problem = _outbox_problem(outbox)
        if problem is not None:
            heading, remedy = problem
            subject = outbox.error or f"{outbox.name} ({outbox.waiting:,})"
            text = f"the outbox {outbox.name}: {heading}" if not outbox.error else outbox.error
            yield Problem("outboxes", text, heading, subject, remedy)


def _outbox_problem(outbox: OutboxInfo) -> tuple[str, str] | None:
    """What is wrong with an outbox, and the remedy."""
    if outbox.error:
        return "an outbox cannot be read", "make its tables with headrace schema apply URL, or repair it"
    if not outbox.relays:
        return "no process relays it", "start a worker of the app that has it, or headrace relay MODULE:APP"
    if outbox.lag > LATE_SECONDS:
        return "its relays do not keep up, or cannot reach the store", "look at the logs of the workers"
    return None


def _of(check: str, load: Workload, text: str, heading: str, remedy: str) -> Problem:
    return Problem(check, text, heading, f"{load.stream.name} ({load.waiting:,})", remedy, load.stream)


def _served(workers: Sequence[WorkerInfo]) -> set[Stream]:
    return {stream for worker in workers for stream in worker.streams}


_START: Final = "start one: headrace worker MODULE:APP"
