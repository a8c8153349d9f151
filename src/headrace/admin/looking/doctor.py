"""The doctor: examines the store, and the queues, topics and workers in it. Each line says what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from headrace.admin.place import attempt
from headrace.core.errors import BackendUnavailable, HeadraceError, RequestRefused
from headrace.core.messages.message import Stream
from headrace.core.records.findings import Finding, Level, ok, warn
from headrace.core.records.record import Counts, JobStatus, WorkerInfo
from headrace.core.runtime.clock import datetime_of
from headrace.engine.declared.registry import Registry
from headrace.engine.streams import StreamRouter

from .diagnosis import CHECKS, Problem, Workload, diagnose, group_workload, queue_workload
from .info import seal_info
from .outboxes import OutboxReader

#: Jobs of each queue whose task names are compared with the app's.
SAMPLE: Final = 100

#: Names that one line shows; the others are counted.
NAMED: Final = 5

#: Seconds after which `RecentFindings` asks again.
FRESH: Final = 300.0


class Doctor:
    def __init__(self, backend: StreamRouter, registry: Registry, outboxes: OutboxReader) -> None:
        self._backend = backend
        self._outboxes = outboxes
        self._registry = registry

    async def examine(self) -> list[Finding]:
        """The store first, then its contents; the order is always the same."""
        return [*await self._backend.examine(), *await self._contents()]

    async def _contents(self) -> list[Finding]:
        try:
            return await self._examine_contents()
        except BackendUnavailable as error:
            return [warn("contents", f"they cannot be read: {error}", "see the lines above")]

    async def _examine_contents(self) -> list[Finding]:
        workers = await self._backend.workers()
        streams = [stream for stream in await self._backend.streams() if stream.kind != "topic"]
        answers = {stream: await attempt(self._backend.counts(stream)) for stream in streams}
        queues = [
            queue_workload(stream, counts)
            for stream, counts in answers.items()
            if stream.kind == "queue" and not isinstance(counts, RequestRefused)
        ]
        groups = [group_workload(group) for topic in await self._backend.topics() for group in topic.groups]
        # Messages wait by the store's clock, which may differ from this machine's.
        store_now = datetime_of((await self._backend.schedules([])).now_us)
        outboxes = await self._outboxes.outboxes()
        problems = diagnose([*queues, *groups], workers, outboxes, store_now=store_now)
        texts = _ok_texts(queues, groups, workers)
        if outboxes:
            texts["outboxes"] = f"{len(outboxes)} relayed in time"
        return [
            *await self._seal(),
            *_damaged(answers),
            *_lines(problems, texts),
            *await self._partitions(),
            *await self._tasks(queues),
        ]

    async def _seal(self) -> list[Finding]:
        seal = seal_info(await self._backend.seal())
        return [] if seal is None else [warn("move", seal.text, seal.remedy)]

    async def _partitions(self) -> list[Finding]:
        """Compares the numbers of parts that the code declares with the stored ones, which are in force."""
        declared = self._backend.declared
        if not declared:
            return []
        stored = {stream: (await self._backend.layout(stream)).current.parts for stream in declared}
        differ = [stream for stream, parts in declared.items() if stored[stream] != parts]
        if differ:
            names = _named(
                f"{stream.name} ({declared[stream]} declared, {stored[stream]} stored)" for stream in differ
            )
            remedy = " or ".join(dict.fromkeys(_SPLIT[stream.kind] for stream in differ))
            return [warn("partitions", f"the code and the store differ: {names}", remedy)]
        return [ok("partitions", f"{len(declared)} declared, and stored so")]

    async def _tasks(self, queues: Sequence[Workload]) -> list[Finding]:
        """Names of waiting tasks that this app does not know. Without an app there is nothing to compare."""
        if not list(self._registry):
            return []
        unknown: dict[str, str] = {}
        for queue in queues:
            if queue.stream.name in self._registry.queues() and queue.waiting:
                unknown |= {task: queue.stream.name for task in await self._unknown(queue.stream)}
        if unknown:
            names = _named(f"{task} in {queue}" for task, queue in sorted(unknown.items()))
            return [
                warn(
                    "tasks",
                    f"jobs wait for tasks that this app does not have: {names}",
                    "deploy the code that has them, or correct name=; after an hour they are dead letters",
                )
            ]
        return [ok("tasks", "this app knows the tasks of the waiting jobs that were compared")]

    async def _unknown(self, stream: Stream) -> set[str]:
        page = await self._backend.messages(stream, status=JobStatus.QUEUED, limit=SAMPLE)
        return {record.task for record in page if record.task not in self._registry}


class RecentFindings:
    """The doctor's findings about the store itself, a few minutes old at most. A page that is shown every
    second cannot wait for the doctor, which may take seconds."""

    def __init__(self, ask: Callable[[], Awaitable[list[Finding]]]) -> None:
        self._ask = ask
        self._findings: list[Finding] = []
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def get(self) -> list[Finding]:
        """The last findings that are not ok, failures first. Old findings are renewed in the background."""
        if time.monotonic() - self._asked_at > FRESH:
            self._asked_at = time.monotonic()
            self._asking = asyncio.create_task(self._refresh())
        return self._findings

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _refresh(self) -> None:
        try:
            found = await self._ask()
        except (HeadraceError, NotImplementedError):
            return  # the page itself shows that the store is unavailable
        # The page makes the diagnosis of `CHECKS` itself, each time.
        warned = [each for each in found if each.level is not Level.OK and each.name not in CHECKS]
        self._findings = sorted(warned, key=lambda each: each.level)


def one_line(finding: Finding) -> str:
    """A finding with its remedy, for a list of warnings."""
    remedy = f" ({finding.remedy})" if finding.remedy else ""
    return f"{finding.name}: {finding.text}{remedy}"


_SPLIT: Final = {
    "queue": "headrace split MODULE:APP QUEUE PARTITIONS, or correct partitions= in the code",
    "topic": "correct partitions= in the code: the number was fixed when the topic was made",
}


def _damaged(answers: Mapping[Stream, Counts | RequestRefused]) -> list[Finding]:
    damaged = {stream: each for stream, each in answers.items() if isinstance(each, RequestRefused)}
    if not damaged:
        return []
    names = _named(f"{stream.kind} {stream.name}" for stream in damaged)
    error = next(iter(damaged.values()))
    return [warn("contents", f"cannot be read: {names}: {error}", "see the lines above")]


def _lines(problems: Sequence[Problem], ok_texts: Mapping[str, str]) -> list[Finding]:
    """One line for each check."""
    lines = []
    for check in CHECKS:
        found = [problem for problem in problems if problem.check == check]
        if found:
            names = _named(problem.subject for problem in found)
            lines.append(warn(check, f"{found[0].heading}: {names}", found[0].remedy))
        elif check in ok_texts:
            lines.append(ok(check, ok_texts[check]))
    return lines


def _ok_texts(
    queues: Sequence[Workload], groups: Sequence[Workload], workers: Sequence[WorkerInfo]
) -> dict[str, str]:
    return {
        "workers": f"{len(workers)} at work" if workers else "no worker is running, and nothing waits",
        "served": "every queue and group with work has a worker",
        "paused": "no queue or group with work is paused",
        "queues": f"none of {len(queues)} is late" if queues else "no queue has been used yet",
        "groups": f"none of {len(groups)} is late" if groups else "no topic has a group",
        "dead letters": "none",
    }


def _named(names: Iterable[str]) -> str:
    several = list(names)
    more = f" and {len(several) - NAMED:,} more" if len(several) > NAMED else ""
    return ", ".join(several[:NAMED]) + more
