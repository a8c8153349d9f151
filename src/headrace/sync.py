"""The portal: the same verbs for synchronous callers, carried to the app's event loop.

Where no loop is open, one daemon thread runs one. Nothing is implemented twice.
"""

from __future__ import annotations

import asyncio
import builtins
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from headrace.admin import Admin, Contents, QueueInfo, Replayed
from headrace.core.duration import Duration
from headrace.core.errors import AppClosed, ConfigurationError
from headrace.core.info import JobInfo
from headrace.core.outcome import DeadReason
from headrace.core.record import DeadLetter, JobStatus, Page, WorkerInfo
from headrace.core.schedule import CatchUp
from headrace.engine.home import Home
from headrace.jobs.face import Jobs
from headrace.jobs.job import Job
from headrace.jobs.schedules import ScheduleInfo, Schedules
from headrace.jobs.task import Call

T = TypeVar("T")
R = TypeVar("R")


class Portal:
    """Runs coroutines on the app's loop from plain code, and waits for them."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._own: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Call `function` on the app's loop and wait for what it returns."""
        loop = self._loop()
        if loop is _running_loop():
            raise ConfigurationError(
                "app.sync was called on the event loop that the app lives on, which would wait for itself: "
                "await the method of the app instead"
            )
        try:
            return asyncio.run_coroutine_threadsafe(function(*args, **kwargs), loop).result()
        except CancelledError:
            raise AppClosed("the app was closed before it answered") from None

    def close(self) -> None:
        """Close the app, and end the portal's thread if there is one."""
        if self._home.loop is not None:
            self.run(self._home.close)
        with self._lock:
            loop, thread = self._own, self._thread
            self._own = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def forget(self) -> None:
        """After a fork the thread is not there any more, and neither is its loop."""
        self._lock = threading.Lock()
        self._own = self._thread = None

    def _loop(self) -> asyncio.AbstractEventLoop:
        home = self._home.loop
        if home is not None and home.is_running():
            return home
        with self._lock:
            if self._own is None:
                self._own = self._start()
            return self._own

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        started = threading.Event()
        loop.call_soon(started.set)
        self._thread = threading.Thread(target=_serve, args=(loop,), name="headrace portal", daemon=True)
        self._thread.start()
        started.wait()
        return loop


class SyncAdmin:
    """`app.sync.admin`: the verbs of `app.admin`, waited for."""

    def __init__(self, portal: Portal, admin: Admin) -> None:
        self._run = portal.run
        self._admin = admin

    def queues(self) -> list[QueueInfo]:
        return self._run(self._admin.queues)

    def jobs(
        self,
        queue: str = "default",
        *,
        state: JobStatus | str | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[JobInfo]:
        return self._run(self._admin.jobs, queue, state=state, task=task, cursor=cursor, limit=limit)

    def job(self, id: str, *, queue: str | None = None) -> JobInfo | None:
        return self._run(self._admin.job, id, queue=queue)

    def contents(self, id: str, *, queue: str | None = None) -> Contents | None:
        return self._run(self._admin.contents, id, queue=queue)

    def workers(self) -> list[WorkerInfo]:
        return self._run(self._admin.workers)

    def pause(self, queue: str) -> None:
        self._run(self._admin.pause, queue)

    def resume(self, queue: str) -> None:
        self._run(self._admin.resume, queue)

    def purge(self, queue: str) -> int:
        return self._run(self._admin.purge, queue)

    def dead(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[DeadLetter]:
        return self._run(self._admin.dead, queue=queue, task=task, reason=reason, cursor=cursor, limit=limit)

    def replay(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
    ) -> Replayed:
        return self._run(self._admin.replay, ids=ids, queue=queue, task=task, reason=reason)

    def discard(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
    ) -> int:
        return self._run(self._admin.discard, ids=ids, queue=queue, task=task, reason=reason)

    def cancel(self, ids: Sequence[str], *, queue: str | None = None) -> int:
        return self._run(self._admin.cancel, ids, queue=queue)

    def retry_now(self, id: str, *, queue: str | None = None) -> bool:
        return self._run(self._admin.retry_now, id, queue=queue)

    def edit(
        self,
        id: str,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
    ) -> bool:
        return self._run(self._admin.edit, id, args=args, kwargs=kwargs, queue=queue)


class SyncSchedules:
    """`app.sync.schedules`: the verbs of `app.schedules`, waited for."""

    def __init__(self, portal: Portal, schedules: Schedules) -> None:
        self._run = portal.run
        self._schedules = schedules

    def add(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        catch_up: CatchUp = "skip",
        jitter: Duration = 0,
    ) -> ScheduleInfo:
        return self._run(
            self._schedules.add, name, call, cron=cron, every=every, tz=tz, catch_up=catch_up, jitter=jitter
        )

    def list(self) -> builtins.list[ScheduleInfo]:
        return self._run(self._schedules.list)

    def pause(self, name: str) -> None:
        self._run(self._schedules.pause, name)

    def resume(self, name: str) -> None:
        self._run(self._schedules.resume, name)

    def run_now(self, name: str) -> Job[Any]:
        return self._run(self._schedules.run_now, name)

    def remove(self, name: str) -> None:
        self._run(self._schedules.remove, name)


class Sync:
    """`app.sync`: for Django, Flask and scripts."""

    def __init__(self, portal: Portal, jobs: Jobs, admin: Admin, schedules: Schedules) -> None:
        self._portal = portal
        self._jobs = jobs
        self.admin = SyncAdmin(portal, admin)
        self.schedules = SyncSchedules(portal, schedules)

    def enqueue(self, call: Call[R]) -> Job[R]:
        """Store one job: `app.sync.enqueue(add.call(2, 3))`."""
        return self._portal.run(self._jobs.enqueue, call)

    def enqueue_many(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        return self._portal.run(self._jobs.enqueue_many, calls)

    def result(self, job: Job[R], timeout: Duration | None = None) -> R:
        return self._portal.run(job.result, timeout)

    def wait(self, job: Job[Any], timeout: Duration | None = None) -> JobStatus:
        return self._portal.run(job.wait, timeout)

    def status(self, job: Job[Any]) -> JobStatus:
        return self._portal.run(job.status)

    def info(self, job: Job[Any]) -> JobInfo:
        return self._portal.run(job.info)

    def cancel(self, job: Job[Any]) -> bool:
        return self._portal.run(job.cancel)

    def close(self) -> None:
        """Close the app, and end the portal's thread if there is one."""
        self._portal.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_end_all())
        loop.close()


async def _end_all() -> None:
    """Whoever still waits for an answer gets to know that there will be none."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
