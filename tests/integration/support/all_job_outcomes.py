"""Everything that happens to jobs, in one process: an app, its worker, and the outcomes that are expected.

The connection to the store may be bad. A producer never gets an error because of that. A caller that steers
or waits may get `BackendUnavailable`, and tries again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from headrace import App, Job, JobStatus, RetryPolicy, Snooze, Unrecoverable, current_job
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.stores import open_store
from tests.support.redis_leases import age_leases
from tests.support.routers import open_router
from tests.support.waiting import wait_until

T = TypeVar("T")

#: Seconds. The lease is such that a busy machine, with many stories told at once, loses none: a worker that
#: gets no turn for that long has lost its jobs, rightly, and they run again.
LEASE = 8.0
PATIENCE = 90.0
FAR = 3600.0

QUEUES = ("default", "orphans", "halted", "rubbish", "late")

#: How often each label must have run. Of `scheduled` only each job is counted, see `Story.check`.
EXPECTED_RUNS = {
    **{f"plain-{number}": 1 for number in range(20)},
    "single": 1,
    "delayed": 1,
    "unique": 2,
    "started": 1,
    "flaky": 2,
    "snoozing": 2,
    "doomed": 2,
    "damned": 1,
    "hanging": 1,
    "halted": 1,
    "retried_now": 1,
    "telling": 1,
    "orphan": 1,
}


async def again(action: Callable[[], Awaitable[T]]) -> T:
    """What an action gives once the store can be reached."""
    answers: list[T] = []

    async def succeeds() -> bool:
        try:
            answers.append(await action())
        except BackendUnavailable:
            return False
        return True

    await wait_until(succeeds, timeout=PATIENCE, message="the store can be reached again")
    return answers[0]


class Story:
    """`url` is the way that may be bad, `direct` a good one for what is not a part of the story."""

    def __init__(self, url: str, direct: str, namespace: str, *, history: int | Literal["all"]) -> None:
        self.app = App(url, namespace=namespace, retry=RetryPolicy.fixed(2, 0.05), history=history)
        self.runs: list[tuple[str, str]] = []  # label and id
        self.mended: set[str] = set()
        self._direct = direct
        self._namespace = namespace
        self._tasks = _tasks_of(self)

    async def play(self) -> None:
        async with self.app:
            orphan = await self._orphan()
            await again(lambda: self.app.admin.pause("halted"))
            await again(lambda: self.app.admin.pause("late"))
            async with self.app.worker(queues=QUEUES, lease=LEASE):
                await asyncio.gather(
                    self._result(orphan, "orphan"),
                    self._plain(),
                    self._later(),
                    self._unique(),
                    self._failing(),
                    self._dying(),
                    self._cancelled(),
                    self._halted(),
                    self._purged(),
                    self._expired(),
                    self._scheduled(),
                )
                # What the schedule fired last may not have run yet.
                await wait_until(lambda: again(self._is_drained), PATIENCE, "everything has run")

    async def check(self) -> None:
        """No job ran twice, and the store has nothing left that no listing shows."""
        counted = Counter(label for label, _ in self.runs)
        del counted["scheduled"]
        assert counted == EXPECTED_RUNS
        fired = Counter(id for label, id in self.runs if label == "scheduled")
        assert set(fired.values()) == {1}
        backend = open_router(self._direct, namespace=self._namespace)
        await backend.open()
        try:
            for stream in await backend.streams():
                counts = await backend.counts(stream)
                left = counts.queued, counts.running, counts.scheduled, counts.retrying, counts.dead
                assert left == (0, 0, 0, 0, 0), f"{stream.name}: {counts}"
        finally:
            await backend.close()

    def ran(self, label: str) -> None:
        self.runs.append((label, current_job().id))

    # --- what happens ------------------------------------------------------------------------------------

    async def _orphan(self) -> Job[Any]:
        """A job whose worker is gone for good."""
        job: Job[Any] = await self._tasks["note"].with_(queue="orphans").enqueue("orphan")
        ghost = open_store(self._direct, namespace=self._namespace)
        await ghost.open()
        try:
            claims: list[Claim] = await ghost.claim(
                [Stream("queue", "orphans")], consumer="ghost", limit=1, suspects=0, wait=5
            )
            assert [claim.id for claim in claims] == [job.id]
            await asyncio.to_thread(age_leases, self._direct, 2 * LEASE, self._namespace)
        finally:
            await ghost.close()
        return job

    async def _plain(self) -> None:
        note = self._tasks["note"]
        labels = [f"plain-{number}" for number in range(20)]
        jobs = await self.app.enqueue_many([note.call(label) for label in labels])
        jobs.append(await note.enqueue("single"))
        jobs.append(await self._tasks["telling"].enqueue("telling"))
        for job, label in zip(jobs, [*labels, "single", "telling"], strict=True):
            await self._result(job, label)

    async def _later(self) -> None:
        note = self._tasks["note"]
        delayed = await note.with_(delay=0.2).enqueue("delayed")
        await again(lambda: self._is_waited_for_in_vain(delayed))
        await self._result(delayed, "delayed")
        retried_now = await note.with_(delay=FAR).enqueue("retried_now")
        await again(lambda: self.app.admin.retry_now(retried_now.id))
        await self._result(retried_now, "retried_now")

    async def _is_waited_for_in_vain(self, job: Job[Any]) -> None:
        try:
            await job.wait(timeout=0.001)
        except TimeoutError:
            pass

    async def _unique(self) -> None:
        alone = self._tasks["note"].with_(unique=True)
        first = await alone.with_(delay=FAR).enqueue("unique")
        second = await alone.enqueue("unique")
        assert (second.id, first.duplicate, second.duplicate) == (first.id, False, True)
        await again(lambda: self.app.admin.retry_now(first.id))
        await self._result(first, "unique")
        third = await alone.enqueue("unique")
        assert not third.duplicate
        await self._result(third, "unique")
        until_started = self._tasks["note"].with_(unique_key="key", unique_until="started")
        await self._result(await until_started.enqueue("started"), "started")

    async def _failing(self) -> None:
        flaky = await self._tasks["flaky"].enqueue("flaky")
        snoozing = await self._tasks["snoozing"].enqueue("snoozing")
        await self._result(flaky, "flaky")
        await self._result(snoozing, "snoozing")
        assert (await again(flaky.info)).attempts == 2
        assert (await again(snoozing.info)).attempts == 1

    async def _dying(self) -> None:
        admin = self.app.admin
        doomed = await self._tasks["doomed"].enqueue("doomed")
        damned = await self._tasks["doomed"].enqueue("damned")
        for job in (doomed, damned):
            await self._over(job, JobStatus.DEAD)
        self.mended.add("doomed")
        await again(lambda: admin.edit(damned.id, args=["damned twice"]))
        await again(lambda: admin.replay(ids=[doomed.id]))
        await again(lambda: admin.discard(ids=[damned.id]))
        await self._result(doomed, "doomed")
        await wait_until(lambda: again(lambda: self._is_unknown(damned)), PATIENCE, "it is forgotten")

    async def _is_unknown(self, job: Job[Any]) -> bool:
        return await job.status() is JobStatus.UNKNOWN

    async def _cancelled(self) -> None:
        waiting = await self._tasks["note"].with_(delay=FAR).enqueue("never")
        running = await self._tasks["hanging"].enqueue("hanging")
        await wait_until(lambda: ("hanging", running.id) in self.runs, PATIENCE, "it hangs")
        for job in (waiting, running):
            await again(job.cancel)
            await self._over(job, JobStatus.CANCELLED)

    async def _halted(self) -> None:
        job = await self._tasks["note"].with_(queue="halted").enqueue("halted")
        assert await again(job.status) is JobStatus.QUEUED
        await again(lambda: self.app.admin.resume("halted"))
        await self._result(job, "halted")

    async def _purged(self) -> None:
        rubbish = self._tasks["note"].with_(queue="rubbish", delay=FAR)
        jobs = await self.app.enqueue_many([rubbish.call("never") for _ in range(3)])
        await again(lambda: self.app.admin.purge("rubbish"))
        for job in jobs:
            await self._over(job, JobStatus.CANCELLED)

    async def _expired(self) -> None:
        job = await self._tasks["note"].with_(queue="late", expires=0.05).enqueue("never")
        until = asyncio.get_running_loop().time() + 0.1
        await wait_until(lambda: asyncio.get_running_loop().time() >= until)
        await again(lambda: self.app.admin.resume("late"))
        await self._over(job, JobStatus.EXPIRED)

    async def _scheduled(self) -> None:
        schedules, call = self.app.schedules, self._tasks["note"].call("scheduled")
        await again(lambda: schedules.put("often", call, every=0.1, catch_up="all"))
        await wait_until(lambda: self._fired() >= 2, PATIENCE, "it has fired")
        await again(lambda: schedules.pause("often"))
        await again(lambda: schedules.resume("often"))
        fired = self._fired()
        await wait_until(lambda: self._fired() > fired, PATIENCE, "it fires again")
        await again(lambda: schedules.pause("often"))
        await again(self._remove_schedule)

    async def _remove_schedule(self) -> None:
        if await self.app.schedules.list():
            await self.app.schedules.remove("often")

    async def _is_drained(self) -> bool:
        queues = await self.app.admin.queues()
        return not any(queue.queued or queue.running or queue.retrying for queue in queues)

    def _fired(self) -> int:
        return sum(label == "scheduled" for label, _ in self.runs)

    # --- what comes of it --------------------------------------------------------------------------------

    async def _result(self, job: Job[Any], label: str) -> None:
        assert await again(lambda: job.result(timeout=PATIENCE)) == label

    async def _over(self, job: Job[Any], status: JobStatus) -> None:
        assert await again(lambda: job.wait(timeout=PATIENCE)) is status


def _tasks_of(story: Story) -> dict[str, Any]:
    _declare_good_tasks(story.app, story.ran)
    _declare_bad_tasks(story)
    return dict(story.app.tasks)


def _declare_good_tasks(app: App, ran: Callable[[str], None]) -> None:
    @app.task(name="note")
    async def note(label: str) -> str:
        ran(label)
        return label

    @app.task(name="telling")
    async def telling(label: str) -> str:
        ran(label)
        await current_job().progress(0.5, "half")
        await asyncio.sleep(0.45 * LEASE)  # renewed meanwhile
        return label

    @app.task(name="hanging")
    async def hanging(label: str) -> str:
        ran(label)
        await asyncio.sleep(FAR)
        return label


def _declare_bad_tasks(story: Story) -> None:
    app, ran = story.app, story.ran

    @app.task(name="flaky")
    async def flaky(label: str) -> str:
        ran(label)
        if current_job().attempt == 1:
            raise ValueError("not yet")
        return label

    @app.task(name="snoozing")
    async def snoozing(label: str) -> str:
        ran(label)
        if sum(each == label for each, _ in story.runs) == 1:
            raise Snooze(0.05)
        return label

    @app.task(name="doomed")
    async def doomed(label: str) -> str:
        ran(label)
        if label not in story.mended:
            raise Unrecoverable("no")
        return label
