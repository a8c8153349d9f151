"""The kit, with which a test runs and inspects an app on a private store."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

import msgspec

from headrace.app import App
from headrace.core.records.job_info import JobProgress
from headrace.core.records.record import JobStatus
from headrace.core.values.durations import Duration
from headrace.engine.app_loop.portal import Portal
from headrace.engine.declared.registry import CallNext, Handler
from headrace.engine.running.run import Abandoned, Run
from headrace.events.event import Event
from headrace.events.topic import Topic
from headrace.jobs.task import Call, Task

from .caller import caller
from .clock import Clock
from .direct_calls import DirectCalls
from .drain import Drain
from .enqueued import EnqueuedJob, enqueued_job, expected, list_of, shortened
from .failures import raise_first
from .published import list_of_events, published_event
from .store import KitStore

T = TypeVar("T")

#: Exceptions that end a run from outside and are no error of the job.
_INTERRUPTIONS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, Abandoned)


class DrainOptions(TypedDict, total=False):
    """The options of `drain`."""

    queues: Sequence[str] | None
    scheduled: bool
    retries: bool
    raise_errors: bool
    concurrency: int
    timeout: Duration | None


class Kit:
    """An app in a test: run its jobs, move its clock, look at what was enqueued. Made by `memory(app)`."""

    def __init__(self, app: App, clock: Clock) -> None:
        self.app = app
        self.clock = clock
        self.sync: SyncKit = SyncKit(self)
        self._store = KitStore(clock, app._registry.subscriptions)
        self._errors: dict[str, BaseException] = {}
        self._direct_calls = DirectCalls(app, clock)

    def __repr__(self) -> str:
        return f"<Kit of {self.app!r}>"

    async def drain(
        self,
        *,
        queues: Sequence[str] | None = None,
        scheduled: bool = False,
        retries: bool = True,
        raise_errors: bool = False,
        concurrency: int = 100,
        timeout: Duration | None = 30,
    ) -> None:
        """Run jobs and handle events until nothing is queued, running, retrying or due. With `queues`, run
        only the jobs in these.

        The clock is moved to each retry, so that a test does not wait for it; `retries=False` runs no
        retries. With `scheduled` the clock is also moved to each scheduled message. With `raise_errors` the
        error of the first job that died is raised at the end. `concurrency=1` runs one job after the other.
        """
        __tracebackhide__ = True
        died_before = len(self._store.deaths)
        drain = Drain(
            self.app,
            self._store,
            self.clock,
            queues=queues,
            awaited=[JobStatus.RETRYING] * retries + [JobStatus.SCHEDULED] * scheduled,
            concurrency=concurrency,
            timeout=timeout,
        )
        await self.app._app_loop.call(drain.run)
        if raise_errors:
            raise_first(self._store.deaths[died_before:], self._errors)

    def enqueued(self, task: Task[Any, Any] | str | None = None) -> list[EnqueuedJob]:
        """Every job that was enqueued, in order, also jobs that have run. Duplicates do not count."""
        appended = [each for each in self._store.appended if each.stream.kind == "queue"]
        jobs = [enqueued_job(self.app, self._store, each) for each in appended]
        if task is None:
            return jobs
        name = expected(self.app, task, (), None, None).task
        return [job for job in jobs if job.task == name]

    def assert_enqueued(
        self,
        task: Task[Any, Any] | Call[Any] | str,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
        count: int | None = None,
    ) -> list[EnqueuedJob]:
        """Fail unless such a job was enqueued, or exactly `count` of them; returns the jobs that fit.

        Arguments that are left out here may have any value; a call (`send.call(7)`) names all arguments.
        """
        __tracebackhide__ = True
        wanted = expected(self.app, task, args, kwargs, queue)
        jobs = self.enqueued()
        found = [job for job in jobs if wanted.fits(job)]
        if count is None and not found:
            raise AssertionError(f"{wanted} was not enqueued; {list_of(jobs)}")
        if count is not None and len(found) != count:
            raise AssertionError(f"{wanted} was enqueued {len(found)} times, not {count}; {list_of(jobs)}")
        return found

    def assert_not_enqueued(
        self,
        task: Task[Any, Any] | Call[Any] | str | None = None,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
    ) -> None:
        """Fail if such a job was enqueued; without a task, if any job was."""
        __tracebackhide__ = True
        jobs = self.enqueued()
        if task is None:
            if jobs:
                raise AssertionError(f"nothing was to be enqueued, but {list_of(jobs)}")
            return
        wanted = expected(self.app, task, args, kwargs, queue)
        if any(wanted.fits(job) for job in jobs):
            raise AssertionError(f"{wanted} was enqueued; {list_of(jobs)}")

    def published(self, topic: Topic[Any] | str | None = None) -> list[Event[Any]]:
        """Every event that was published, in order, to this topic or to any. Duplicates do not count."""
        name = topic.name if isinstance(topic, Topic) else topic
        appended = [each for each in self._store.appended if each.stream.kind == "topic"]
        return [
            published_event(self.app, each) for each in appended if name is None or each.stream.name == name
        ]

    def assert_published(
        self, topic: Topic[T], payload: T | None = None, *, key: str | None = None, count: int | None = None
    ) -> list[Event[T]]:
        """Fail unless such an event was published, or exactly `count` of them; returns the events that fit.

        A payload or a key that is left out may have any value.
        """
        __tracebackhide__ = True
        events = self.published(topic)
        found = [
            event
            for event in events
            if (payload is None or event.payload == payload) and (key is None or event.key == key)
        ]
        wanted = "an event" if payload is None else shortened(payload)
        if count is None and not found:
            raise AssertionError(f"{wanted} was not published to {topic.name}; {list_of_events(events)}")
        if count is not None and len(found) != count:
            raise AssertionError(
                f"{wanted} was published to {topic.name} {len(found)} times, not {count}; "
                f"{list_of_events(events)}"
            )
        return found

    @property
    def reported(self) -> list[JobProgress]:
        """The progress that tasks reported which the test called as functions: `await render(7)`."""
        return self._direct_calls.reported

    def clear(self) -> None:
        """Make the assertions forget earlier jobs, events and reports. The store keeps jobs and events."""
        self._store.appended.clear()
        self.reported.clear()

    async def _attend(self, run: Run, call_next: CallNext) -> object:
        """The middleware around every run: keeps the exception itself; stores keep only its text."""
        run.handler = _within_reach(run.handler)
        self._errors.pop(run.id, None)
        try:
            return await call_next(run)
        except _INTERRUPTIONS:
            raise
        except BaseException as error:
            self._errors[run.id] = error
            raise


class SyncKit:
    """`kit.sync`: the asynchronous methods of the kit, for tests without an event loop."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def drain(self, **options: Unpack[DrainOptions]) -> None:
        """`Kit.drain` for plain functions."""
        __tracebackhide__ = True
        Portal(self._kit.app._app_loop).run(self._kit.drain, **options)


def _within_reach(handler: Handler) -> Handler:
    """The handler, changed to run in this process, so that the patches of the test hold for it. A plain
    function runs in the thread of the plain test that waits for it."""
    if handler.run_in == "process":
        is_async = inspect.iscoroutinefunction(handler.function)
        handler = msgspec.structs.replace(handler, run_in="loop" if is_async else "thread")
    waiting = caller.get(None)
    if waiting is not None and handler.run_in == "thread":
        return msgspec.structs.replace(handler, function=waiting.run_here(handler.function))
    return handler
