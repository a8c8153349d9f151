"""Runs jobs where they are enqueued: `enqueue` returns when the job is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from headrace.core.messages.message import Stream
from headrace.core.records.record import JobStatus
from headrace.jobs.job import Job
from headrace.jobs.task import Call

from .caller import Caller
from .drain import LOOK
from .failures import raise_first
from .kit import Kit
from .working import working

R = TypeVar("R")


@contextmanager
def inline(kit: Kit, *, raise_errors: bool) -> Iterator[None]:
    """Make the enqueue methods of the app wait for the end of their jobs."""
    verbs = Inline(kit, raise_errors=raise_errors)
    with (
        _overridden(kit.app._jobs, enqueue=verbs.enqueue, enqueue_many=verbs.enqueue_many),
        _overridden(kit.app.sync, enqueue=verbs.enqueue_sync, enqueue_many=verbs.enqueue_many_sync),
    ):
        yield


class Inline:
    """The four enqueue methods, each around the original."""

    def __init__(self, kit: Kit, *, raise_errors: bool) -> None:
        app = kit.app
        self._kit = kit
        self._store = kit._store
        self._raise_errors = raise_errors
        self._enqueue, self._enqueue_many = app._jobs.enqueue, app._jobs.enqueue_many
        self._enqueue_sync, self._enqueue_many_sync = app.sync.enqueue, app.sync.enqueue_many

    async def enqueue(self, call: Call[R], /) -> Job[R]:
        __tracebackhide__ = True
        job = await self._enqueue(call)
        await self._finish([job])
        return job

    async def enqueue_many(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        __tracebackhide__ = True
        jobs = await self._enqueue_many(calls)
        await self._finish(jobs)
        return jobs

    def enqueue_sync(self, call: Call[R]) -> Job[R]:
        __tracebackhide__ = True
        return self._enqueue_sync(call) if _on_a_loop() else Caller().wait_for(self._enqueue_sync, call)

    def enqueue_many_sync(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        __tracebackhide__ = True
        if _on_a_loop():
            return self._enqueue_many_sync(calls)
        return Caller().wait_for(self._enqueue_many_sync, calls)

    async def _finish(self, jobs: Sequence[Job[Any]]) -> None:
        __tracebackhide__ = True
        new = [(Stream("queue", job.queue or ""), job.id) for job in jobs if not job.duplicate]
        if new:
            await self._kit.app._app_loop.call(self._run, new)
        if self._raise_errors:
            deaths = [death for death in self._store.deaths if (death.stream, death.id) in new]
            raise_first(deaths, self._kit._errors)

    async def _run(self, jobs: Sequence[tuple[Stream, str]]) -> None:
        """Run a worker for these jobs only, so that a job may enqueue others and wait for them."""
        queues = sorted({stream.name for stream, _ in jobs})
        async with working(self._kit.app, queues=queues, concurrency=1):
            for stream, id in jobs:
                await self._store.run_now(stream, id)  # inline jobs have no delay
                await self._until_over(stream, id)

    async def _until_over(self, stream: Stream, id: str) -> None:
        while True:
            match self._store.record(stream, id).status:
                case JobStatus.QUEUED if (await self._store.counts(stream)).paused:
                    return
                case JobStatus.QUEUED | JobStatus.RUNNING:
                    await self._store.something_settled(LOOK)
                case JobStatus.RETRYING:
                    await self._store.run_now(stream, id)
                case _:
                    return  # the job is over, or its handler asked for a later run


@contextmanager
def _overridden(owner: object, **verbs: Callable[..., Any]) -> Iterator[None]:
    """Replace methods of `owner` during this block."""
    before = {name: vars(owner)[name] for name in verbs if name in vars(owner)}  # by an outer block
    vars(owner).update(verbs)
    try:
        yield
    finally:
        for name in verbs:
            del vars(owner)[name]
        vars(owner).update(before)


def _on_a_loop() -> bool:
    """Whether an event loop runs in this thread. It must not wait for itself."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
