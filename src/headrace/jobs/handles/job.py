"""A handle on a job that was enqueued: its state, its result, its cancellation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from headrace.core.errors import (
    JobCancelled,
    JobExpired,
    JobFailed,
    ResultNotKept,
    ResultTimeout,
)
from headrace.core.records.job_info import JobInfo
from headrace.core.records.record import JobStatus, Record
from headrace.core.values.durations import Duration, seconds
from headrace.engine.app_loop.portal import Portal

if TYPE_CHECKING:
    from .sync_job import SyncJob

R = TypeVar("R")


class Lookup(Protocol):
    """What a handle needs from its app."""

    async def find(self, id: str, queue: str | None, timeout: float | None = None) -> Record | None: ...
    async def ended(
        self, id: str, queue: str | None, timeout: float | None, *, relayed: bool | None = False
    ) -> Record | None: ...
    async def cancel(self, id: str, queue: str | None) -> bool: ...
    async def unserved_queue(self, id: str, queue: str | None) -> str | None: ...
    @property
    def portal(self) -> Portal: ...
    def info_of(self, record: Record) -> JobInfo: ...
    def keeps_result(self, task: str) -> bool: ...
    def decoded_result(self, id: str, task: str, result: bytes) -> Any: ...


class Job(msgspec.Struct, Generic[R], eq=False, gc=False):
    """A handle on a job. It holds no state: each method asks the store.

    - `id`: the id of the job
    - `task`: the name of its task; None: not known, for a handle made by `app.job(id)`
    - `queue`: its queue; None: not known, and each question goes to every queue of the store
    - `duplicate`: a job with this id or unique key existed already, and the handle is for that job
    """

    # `enqueue_many` makes very many of these: a struct without garbage collection takes a fifth of the time.

    id: str
    _lookup: Lookup
    task: str | None = None
    queue: str | None = None
    duplicate: bool = False
    _keeps: bool | None = None
    _in_outbox: bool = False  # it was written in a transaction, and is unknown until a relay has enqueued it

    def __repr__(self) -> str:
        return f"<Job {self.id}{f' of {self.task}' if self.task else ''}>"

    @property
    def sync(self) -> SyncJob[R]:
        """The methods of this job for plain code: `job.sync.result(timeout=10)`."""
        from .sync_job import SyncJob  # it imports this module

        return SyncJob(self._lookup.portal, self)

    async def status(self) -> JobStatus:
        """The status of the job. `unknown`: it never existed, or it has ended and nothing of it was kept, nor
        is it in the history of its queue."""
        record = await self._lookup.find(self.id, self.queue)
        return record.status if record else JobStatus.UNKNOWN

    async def info(self) -> JobInfo:
        """What the store knows of the job: status, arguments, every run, times, progress and the last error.
        Of a job that is over, the history of its queue has most of it."""
        record = await self._lookup.find(self.id, self.queue)
        if record is None:
            return JobInfo(self.id, self.queue or "", self.task or "", JobStatus.UNKNOWN)
        return self._lookup.info_of(record)

    async def wait(self, timeout: Duration | None = None) -> JobStatus:
        """Wait until the job has ended in any way, and return its status.

        - `timeout`: seconds, after which `ResultTimeout` is raised; the job goes on. None: no limit
        """
        return (await self._ended(_limit(timeout), time.monotonic())).status

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait for the result of the job. The store announces it: nothing is polled.

        Raises `JobFailed`, `JobCancelled`, `JobExpired`, `ResultTimeout`, and at once `ResultNotKept` when
        the task keeps no result.

        - `timeout`: seconds, after which `ResultTimeout` is raised; the job goes on. None: no limit
        """
        asked_at, limit = time.monotonic(), _limit(timeout)
        await self._must_keep(limit)
        record = await self._ended(limit, asked_at)
        match record.status:
            case JobStatus.SUCCEEDED if record.result is not None:
                return self._decoded(record, record.result)
            case JobStatus.SUCCEEDED:
                why = record.note or "its result was not kept, or its result_ttl is over"
                raise ResultNotKept(f"job {self.id} succeeded, but {why}")
            case JobStatus.DEAD:
                raise _failed(record)
            case JobStatus.CANCELLED:
                raise JobCancelled(f"job {self.id} was cancelled")
            case JobStatus.EXPIRED:
                raise JobExpired(f"job {self.id} was not started before it expired")
            case _:
                raise ResultNotKept(
                    f"the store knows no job {self.id}: it was never enqueued, or is already forgotten"
                )

    async def cancel(self) -> bool:
        """Cancel the job. One that waits is removed; the worker of one that runs interrupts it. False: it has
        ended already."""
        return await self._lookup.cancel(self.id, self.queue)

    async def _ended(self, limit: float | None, asked_at: float) -> Record:
        left = None if limit is None else max(0.0, asked_at + limit - time.monotonic())
        record = await self._lookup.ended(self.id, self.queue, left, relayed=self._in_outbox and self._keeps)
        if record is None:
            raise await self._late(limit or 0.0)
        return record

    async def _late(self, limit: float) -> ResultTimeout:
        late = f"job {self.id} has not ended after {limit:g} s"
        unserved = await self._lookup.unserved_queue(self.id, self.queue)
        if unserved is None:
            return ResultTimeout(f"{late}; it goes on, ask again")
        start = "start one with `headrace worker`, or `async with app.worker()`"
        return ResultTimeout(f"{late}: no worker serves queue {unserved!r}; {start}", no_worker=True)

    async def _must_keep(self, limit: float | None) -> None:
        keeps = self._keeps
        if keeps is None:
            record = await self._lookup.find(self.id, self.queue, limit)
            if record is None or record.status.over:
                return
            keeps = self._lookup.keeps_result(record.task)
        if not keeps:
            raise ResultNotKept(
                f"{self.task or 'this task'} keeps no result: annotate what it returns, or give it a "
                "result_ttl; wait() waits for its end"
            )

    def _decoded(self, record: Record, result: bytes) -> R:
        value: R = self._lookup.decoded_result(self.id, record.task or self.task or "", result)
        return value


def _limit(timeout: Duration | None) -> float | None:
    return None if timeout is None else seconds("timeout", timeout)


def _failed(record: Record) -> JobFailed:
    failure = record.failure
    if failure is None:
        return JobFailed(f"job {record.id} is dead ({record.reason})")
    return JobFailed(
        f"job {record.id} is dead ({record.reason}): {failure.error_type}: {failure.error}",
        error_type=failure.error_type,
        error=failure.error,
        traceback=failure.traceback,
    )
