"""Looking and steering: queues, jobs, workers, dead letters, pause, purge."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    App,
    ConfigurationError,
    InvalidPayload,
    Job,
    JobCancelled,
    JobStatus,
    Page,
    PayloadTooLarge,
    QueueInfo,
    RetryPolicy,
    UnknownTask,
    current_job,
)
from headrace.core.runtime.clock import MovableClock
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain, until

# --- looking -------------------------------------------------------------------------------------------


async def test_queues_say_how_many_jobs_are_in_each_state(app: App, clock: MovableClock) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    @app.task(name="see", queue="sights", retry=RetryPolicy.none())
    async def see(how: str) -> int:
        if how == "fail":
            raise ValueError("no")
        inside.set()
        await gate.wait()
        return 1

    @app.task(name="hear", retry=RetryPolicy.fixed(1, 60))
    async def hear() -> int:
        raise ValueError("no")

    await see.enqueue("fail")
    await see.enqueue("run")
    await see.with_(delay=60).enqueue("later")
    retrying = await hear.enqueue()
    async with app.worker(lease=LONG):
        await inside.wait()
        await until(retrying, JobStatus.RETRYING)
        await see.with_(queue="other").enqueue("wait")
        default, other, sights = await app.admin.queues()
        gate.set()
    assert default == QueueInfo("default", retrying=1)
    assert (other.name, other.queued, other.paused) == ("other", 1, False)
    assert other.oldest is not None
    assert other.oldest.timestamp() == pytest.approx(clock.now_us() / 1e6, abs=5)
    assert sights == QueueInfo("sights", running=1, scheduled=1, dead=1)


async def test_every_listing_is_a_page(app: App) -> None:
    admin = app.admin
    for page in (await admin.queues(), await admin.topics(), await admin.workers(), await admin.limits()):
        assert isinstance(page, Page)
        assert (list(page), page.cursor) == ([], None)


async def test_jobs_are_listed_page_by_page(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    jobs = await app.enqueue_many([see.call(n) for n in range(25)])
    found: list[str] = []
    cursor = None
    for _ in range(10):
        page = await app.admin.jobs(cursor=cursor, limit=10)
        assert len(page) <= 10
        found += [info.id for info in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(found) == sorted(job.id for job in jobs)


async def test_jobs_are_listed_by_state_and_task(app: App) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    @app.task(name="hear")
    async def hear() -> int:
        return 1

    done = await see.enqueue()
    await drain(app)
    later, heard = await see.with_(delay=60).enqueue(), await hear.enqueue()

    async def listed(state: JobStatus | str | None = None, task: str | None = None) -> set[str]:
        return {info.id for info in await app.admin.jobs("default", state=state, task=task)}

    assert await listed() == {done.id, later.id, heard.id}
    assert await listed(state="scheduled") == {later.id}
    assert await listed(state=JobStatus.SUCCEEDED) == {done.id}
    assert await listed(task="hear") == {heard.id}
    assert await listed(state="queued", task="see") == set()
    with pytest.raises(ConfigurationError, match="'waiting' is not a state: use one of scheduled, queued"):
        await app.admin.jobs(state="waiting")


@pytest.mark.parametrize("limit", [0, -1, True, "ten"])
async def test_a_listing_needs_a_limit_that_is_one(app: App, limit: int) -> None:
    with pytest.raises(ConfigurationError, match="limit must be a whole number"):
        await app.admin.jobs(limit=limit)
    with pytest.raises(ConfigurationError, match="limit must be a whole number"):
        await app.admin.dead(limit=limit)


async def test_one_job_is_found_in_any_queue(app: App) -> None:
    @app.task(name="see", queue="sights")
    async def see() -> int:
        return 1

    job = await see.enqueue()
    info = await app.admin.job(job.id)
    assert info is not None
    assert (info.queue, info.task) == ("sights", "see")
    assert await app.admin.job(job.id, queue="default") is None
    assert await app.admin.job("no-such-job") is None


async def test_a_look_that_is_cancelled_before_it_begins_leaves_no_warning(app: App) -> None:
    @app.task(name="see", queue="sights")
    async def see() -> None: ...

    await see.enqueue()
    looking = asyncio.create_task(app.admin.job("unknown"))
    await asyncio.sleep(0)
    looking.cancel()
    await asyncio.wait([looking])
    gc.collect()
    assert looking.cancelled()


async def test_workers_announce_what_they_do(app: App) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    @app.task(name="see", queue="sights")
    async def see() -> int:
        inside.set()
        await gate.wait()
        return 1

    assert await app.admin.workers() == []
    async with app.worker(concurrency=7) as worker:
        job = await see.enqueue()
        await inside.wait()

        async def is_named() -> bool:
            return any(info.running for info in await app.admin.workers())

        await wait_until(is_named)
        (info,) = await app.admin.workers()
        assert (info.consumer, info.concurrency, info.queues) == (worker.id, 7, ("default", "sights"))
        assert [(running.id, running.task) for running in info.running] == [(job.id, "see")]
        assert info.polled_us / 1e6 == pytest.approx(time.time(), abs=30)
        gate.set()
    assert await app.admin.workers() == []


# --- dead letters --------------------------------------------------------------------------------------


class Deaths:
    """An app with a few dead letters: three of `fail` in `default`, one of `drop` in `other`."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.healed = False
        self.jobs: list[Job[int]] = []

        @app.task(name="fail", retry=RetryPolicy.fixed(1, 0))
        async def fail(n: int) -> int:
            if not self.healed:
                raise ValueError(f"no {n}")
            return current_job().attempt

        @app.task(name="drop", queue="other", retry=RetryPolicy.none())
        async def drop(n: int) -> int:
            if not self.healed:
                raise KeyError("no")
            return n

        self._fail, self._drop = fail, drop

    async def happen(self) -> None:
        self.jobs = [await self._fail.enqueue(n) for n in range(3)] + [await self._drop.enqueue(3)]
        await drain(self.app, concurrency=1)

    @property
    def ids(self) -> list[str]:
        return [job.id for job in self.jobs]


@pytest.fixture
async def deaths(app: App) -> Deaths:
    deaths = Deaths(app)
    await deaths.happen()
    return deaths


async def test_dead_letters_tell_the_whole_story(app: App, deaths: Deaths) -> None:
    letters = await app.admin.dead(queue="default")
    assert [letter.id for letter in letters] == list(reversed(deaths.ids[:3]))
    letter = letters.items[0]
    assert (letter.task, letter.queue, letter.topic, letter.group) == ("fail", "default", None, None)
    assert (letter.reason, letter.error_type, letter.error) == ("exhausted", "ValueError", "no 2")
    assert letter.attempts == 2
    assert letter.traceback.rstrip().endswith("ValueError: no 2")
    assert letter.died_at.timestamp() == pytest.approx(time.time(), abs=30)
    assert letter.payload == b"\x91\x91\x02"


async def test_dead_letters_of_all_queues_are_listed_page_by_page(app: App, deaths: Deaths) -> None:
    found: list[str] = []
    cursor = None
    for _ in range(10):
        page = await app.admin.dead(cursor=cursor, limit=2)
        found += [letter.id for letter in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(found) == sorted(deaths.ids)
    assert cursor is None


async def test_dead_letters_are_chosen_by_task_and_reason(app: App, deaths: Deaths) -> None:
    assert [letter.id for letter in await app.admin.dead(task="drop")] == [deaths.ids[3]]
    assert len(await app.admin.dead(reason="exhausted")) == 4
    assert len(await app.admin.dead(reason="crashed")) == 0
    with pytest.raises(ConfigurationError, match="'bored' is not a reason: use one of exhausted"):
        await app.admin.dead(reason="bored")


async def test_a_replay_keeps_the_id_and_starts_with_zero_counts(app: App, deaths: Deaths) -> None:
    deaths.healed = True
    assert await app.admin.replay(ids=deaths.ids[:1]) == 1
    info = await deaths.jobs[0].info()
    assert (info.status, info.failures, info.attempts, info.trail) == (JobStatus.QUEUED, 0, 0, ())
    await drain(app)
    assert await deaths.jobs[0].result() == 1
    assert len(await app.admin.dead()) == 3


async def test_letters_are_replayed_by_queue_task_or_reason(app: App, deaths: Deaths) -> None:
    assert await app.admin.replay(queue="other") == 1
    assert await app.admin.replay(task="fail") == 3
    assert await app.admin.replay(reason="exhausted") == 0
    await drain(app)
    assert await app.admin.replay(reason="exhausted") == 4


async def test_letters_are_discarded_for_good(app: App, deaths: Deaths) -> None:
    assert await app.admin.discard(ids=[deaths.ids[0], "no-such-job"]) == 1
    assert await deaths.jobs[0].status() is JobStatus.UNKNOWN
    assert await app.admin.discard(queue="default", task="fail") == 2
    assert await app.admin.discard(reason="exhausted") == 1
    assert len(await app.admin.dead()) == 0


async def test_it_must_be_said_which_letters(app: App) -> None:
    for verb in (app.admin.replay, app.admin.discard):
        with pytest.raises(ConfigurationError, match="name the dead letters"):
            await verb()
        with pytest.raises(ConfigurationError, match="give ids=, or task= and reason=, not both"):
            await verb(ids=["a"], task="fail")
        with pytest.raises(ConfigurationError, match="ids must be a list of ids, not 'a'"):
            await verb(ids="a")


async def test_a_handle_is_no_id(app: App) -> None:
    """Nothing is called so: the answer was that there is no such job, and the job ran."""
    handle: Any = await app.remote("see").enqueue()
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: app.admin.cancel([handle]),
        lambda: app.admin.cancel(handle),
        lambda: app.admin.replay(ids=[handle]),
        lambda: app.admin.discard(ids=[handle]),
        lambda: app.admin.retry_now(handle),
        lambda: app.admin.edit(handle),
        lambda: app.admin.job(handle),
        lambda: app.job(handle).status(),
    ]
    for ask in asked:
        with pytest.raises(ConfigurationError, match=r"an id is a text, such as job\.id|a list of ids"):
            await ask()


async def test_hundreds_of_letters_are_replayed_in_steps(app: App) -> None:
    healed = False

    @app.task(name="fail", retry=RetryPolicy.none())
    async def fail(n: int) -> int:
        if not healed:
            raise ValueError("no")
        return n

    jobs = await app.enqueue_many([fail.call(n) for n in range(500)])
    await drain(app)
    healed = True
    assert await app.admin.replay(queue="default") == 500
    await drain(app)
    assert [await job.result() for job in jobs[::100]] == [0, 100, 200, 300, 400]


# --- single jobs ---------------------------------------------------------------------------------------


async def test_a_scheduled_job_can_be_run_now(app: App) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    job = await see.with_(delay=3600).enqueue()
    assert await app.admin.retry_now(job.id)
    await drain(app)
    assert await job.result() == 1
    assert not await app.admin.retry_now(job.id)
    assert not await app.admin.retry_now("no-such-job")


async def test_a_retrying_job_can_be_run_now_and_keeps_its_counts(app: App) -> None:
    @app.task(name="fail", retry=RetryPolicy.fixed(1, 3600))
    async def fail_once() -> int:
        if current_job().attempt == 1:
            raise ValueError("no")
        return current_job().attempt

    job = await fail_once.enqueue()
    async with app.worker():
        await until(job, JobStatus.RETRYING)
        assert await app.admin.retry_now(job.id)
        assert await job.result(timeout=10) == 2


async def test_a_dead_job_can_be_run_now(app: App, deaths: Deaths) -> None:
    deaths.healed = True
    assert await app.admin.retry_now(deaths.ids[0])
    await drain(app)
    assert await deaths.jobs[0].result() == 1


async def test_a_job_that_does_not_run_can_be_given_other_arguments(app: App) -> None:
    @app.task(name="see")
    async def see(n: int, *, more: int = 0) -> int:
        return n + more

    job = await see.with_(delay=60, headers={"a": "b"}).enqueue(1)
    assert await app.admin.edit(job.id, args=[2], kwargs={"more": 5})
    await app.admin.retry_now(job.id)
    await drain(app)
    assert await job.result() == 7


async def test_what_runs_or_is_over_is_not_edited(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    job = await see.enqueue(1)
    assert not await app.admin.edit(job.id, args=[2])
    await drain(app)
    assert not await app.admin.edit(job.id, args=[2])
    assert not await app.admin.edit("no-such-job", args=[2])


async def test_a_page_of_jobs_begins_with_running_ones_and_then_the_newest(app: App) -> None:
    @app.task(name="wait")
    async def wait() -> None:
        await asyncio.Event().wait()

    running = await wait.enqueue()
    async with app.worker(queues=["default"], concurrency=1, grace=0):
        await until(running, JobStatus.RUNNING)
        await app.admin.pause("default")  # nothing more is taken
        jobs = [await wait.with_(delay=60 * (number % 2)).enqueue() for number in range(6)]
        page = await app.admin.jobs()
    assert [job.id for job in page] == [running.id, *(job.id for job in reversed(jobs))]


async def test_edited_arguments_are_checked_as_enqueued_ones_are(store: InterceptedStore) -> None:
    async with App(store=store, max_payload=100) as app, App(store=store.for_other_loop()) as other:

        @app.task(name="see")
        async def see(text: str) -> int:
            return len(text)

        job = await see.with_(delay=60).enqueue("short")
        with pytest.raises(PayloadTooLarge):
            await app.admin.edit(job.id, args=["x" * 200])
        with pytest.raises(InvalidPayload, match="Expected `str`, got `int` - at `text`"):
            await app.admin.edit(job.id, args=[7])
        with pytest.raises(UnknownTask, match="no task called 'see'"):
            await other.admin.edit(job.id, args=["other"])


# --- pause, resume, purge ------------------------------------------------------------------------------


async def test_a_paused_queue_starts_nothing_until_it_is_resumed(app: App) -> None:
    ran: list[str] = []

    @app.task(name="see")
    async def see(what: str) -> int:
        ran.append(what)
        return 1

    await app.admin.pause("default")
    async with app.worker():
        (info,) = await app.admin.queues()
        assert info.paused
        job = await see.enqueue("paused")
        other = await see.with_(queue="other").enqueue("other")
        async with app.worker(queues=["other"]):
            await other.wait(timeout=10)
        assert ran == ["other"]
        assert await job.status() is JobStatus.QUEUED
        await app.admin.resume("default")
        assert await job.result(timeout=10) == 1


async def test_what_runs_goes_on_when_its_queue_is_paused(app: App) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        inside.set()
        await gate.wait()
        return 1

    job = await see.enqueue()
    async with app.worker():
        await inside.wait()
        await app.admin.pause("default")
        gate.set()
        assert await job.result(timeout=10) == 1


async def test_buffered_jobs_are_handed_back_when_their_queue_is_paused(
    app: App, store: InterceptedStore
) -> None:
    gate, ran = asyncio.Event(), list[int]()

    @app.task(name="see")
    async def see(n: int) -> int:
        ran.append(n)
        await gate.wait()
        return n

    jobs = await app.enqueue_many([see.call(n) for n in range(3)])
    store.ahead = 2
    async with app.worker(concurrency=1):
        await wait_until(lambda: ran)
        await app.admin.pause("default")
        await until(jobs[1], JobStatus.QUEUED)
        await until(jobs[2], JobStatus.QUEUED)
        assert (await jobs[1].info()).attempts == 0
        gate.set()
        await jobs[0].wait(timeout=10)
    assert ran == [0]


async def test_a_burst_does_not_wait_for_a_paused_queue(app: App) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    job = await see.enqueue()
    await app.admin.pause("default")
    await drain(app)
    assert await job.status() is JobStatus.QUEUED


async def test_a_purge_cancels_what_waits_and_nothing_else(app: App) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    @app.task(name="see", unique=True, retry=RetryPolicy.fixed(1, 60))
    async def see(how: str) -> int:
        if how == "fail":
            raise ValueError("no")
        inside.set()
        await gate.wait()
        return 1

    running, retrying = await see.enqueue("run"), await see.enqueue("fail")
    async with app.worker(lease=LONG, concurrency=5):
        await inside.wait()
        await until(retrying, JobStatus.RETRYING)
        await app.admin.pause("default")
        waiting, scheduled = await see.enqueue("wait"), await see.with_(delay=60).enqueue("later")
        result = asyncio.create_task(scheduled.result(timeout=10))
        await asyncio.sleep(0)
        assert await app.admin.purge("default") == 3
        with pytest.raises(JobCancelled):
            await result
        for job in (retrying, waiting, scheduled):
            assert await job.status() is JobStatus.CANCELLED
        assert await running.status() is JobStatus.RUNNING
        assert not (await see.enqueue("wait")).duplicate
        gate.set()
        assert await running.result(timeout=10) == 1


async def test_a_purge_leaves_dead_letters_alone(app: App, deaths: Deaths) -> None:
    assert await app.admin.purge("default") == 0
    assert len(await app.admin.dead()) == 4


async def test_thousands_are_purged_in_steps(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    await app.enqueue_many([see.call(n) for n in range(2000)])
    assert await app.admin.purge("default") == 2000
    (info,) = await app.admin.queues()
    assert info == QueueInfo("default")


@pytest.mark.parametrize("verb", ["pause", "resume", "purge"])
async def test_a_queue_that_cannot_be_is_refused(app: App, verb: str) -> None:
    with pytest.raises(ConfigurationError, match="queue name 'two words'"):
        await getattr(app.admin, verb)("two words")


async def test_an_id_that_is_no_text_is_an_error_of_the_tree(tmp_path: Path) -> None:
    """`json.loads` makes half a surrogate pair of what a visitor of a site has sent."""
    app, id = App(f"sqlite:///{tmp_path}/jobs.db"), "\ud800x"
    looks: list[Callable[[], Awaitable[object]]] = [
        lambda: app.job(id).status(),
        lambda: app.admin.job(id),
        lambda: app.admin.jobs(id),
        lambda: app.admin.dead(queue=id),
        lambda: app.admin.cancel([id]),
        lambda: app.admin.replay(ids=[id]),
        lambda: app.admin.retry_now(id),
        lambda: app.admin.release_key("default", id),
    ]
    await app.remote("see").enqueue()
    for look in looks:
        with pytest.raises(ConfigurationError, match=r"ud800x' is not text in UTF-8"):
            await look()
    await app.close()
