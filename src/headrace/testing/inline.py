"""Runs jobs where they are enqueued: `enqueue` returns when the job is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.core.messages.message import Stream
from headrace.core.records.record import JobStatus
from headrace.engine.running.run import current_run
from headrace.jobs.handles.job import Job
from headrace.jobs.sending import EnqueueHooks

from .caller import CallerWaits
from .drain import LOOK
from .failures import raise_first
from .kit import Kit
from .working import working


@contextmanager
def inline(kit: Kit, *, raise_errors: bool) -> Iterator[None]:
    """Make the enqueue methods of the app wait for the end of their jobs."""
    jobs, portal = kit.app._jobs, kit.app.sync._portal
    hooks = jobs.around = jobs.around or EnqueueHooks()
    after, waiting = hooks.after, portal.waiting  # of an outer block
    hooks.after, portal.waiting = Inline(kit, raise_errors=raise_errors).finish, CallerWaits()
    try:
        yield
    finally:
        hooks.after, portal.waiting = after, waiting
        jobs.around = None if hooks == EnqueueHooks() else hooks


class Inline:
    """Runs the jobs that were enqueued, before their enqueue returns."""

    def __init__(self, kit: Kit, *, raise_errors: bool) -> None:
        self._kit = kit
        self._store = kit._store
        self._raise_errors = raise_errors

    async def finish(self, jobs: Sequence[Job[Any]]) -> None:
        __tracebackhide__ = True
        new = [(Stream("queue", job.queue or ""), job.id) for job in jobs if not job.duplicate]
        if new:
            await self._kit.app._app_loop.call(self._run, new)
        if self._raise_errors:
            deaths = [death for death in self._store.deaths if (death.stream, death.id) in new]
            raise_first(deaths, self._kit._errors)

    async def _run(self, jobs: Sequence[tuple[Stream, str]]) -> None:
        """Run a worker for these jobs only, so that a job may enqueue others and wait for them."""
        inside = current_run.get(None) is not None
        queues = sorted({stream.name for stream, _ in jobs})
        async with working(self._kit.app, queues=queues, concurrency=1):
            for stream, id in jobs:
                await self._store.run_now(stream, id)  # inline jobs have no delay
                await self._until_over(stream, id, inside=inside)

    async def _until_over(self, stream: Stream, id: str, *, inside: bool) -> None:
        while True:
            record = self._store.record(stream, id)
            match record.status:
                case JobStatus.QUEUED if (await self._store.counts(stream)).paused:
                    return
                case JobStatus.QUEUED if record.waiting_for and not self._wait_for_tokens(stream):
                    if inside:
                        return  # the job that enqueued it may hold the limit until it ends
                    await self._store.something_settled(LOOK)
                case JobStatus.QUEUED | JobStatus.RUNNING:
                    await self._store.something_settled(LOOK)
                case JobStatus.RETRYING:
                    await self._store.run_now(stream, id)
                case _:
                    return  # the job is over, or its handler asked for a later run

    def _wait_for_tokens(self, stream: Stream) -> bool:
        """Move the clock to the next token of a rate. False: there is none to wait for."""
        us = self._store.next_tokens_us([stream])
        if us is None:
            return False
        self._kit.clock.advance_us(max(0, us - self._kit.clock.now_us()))
        return True
