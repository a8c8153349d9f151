"""A queue that is split, as users see it: one queue."""

from __future__ import annotations

import logging

import pytest

from headrace import App, ConfigurationError, JobStatus, Queue, QueueInfo
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Stream
from headrace.core.records.findings import Finding, Level
from headrace.core.rules.layout import part_stream
from headrace.store import Store
from headrace.stores import open_store


@pytest.fixture
def url() -> str:
    return f"memory://{new_id()}"


@pytest.fixture
def store(url: str) -> Store:
    """The store of the apps, seen from another process."""
    return open_store(url)


def stored_parts(queue: Stream) -> list[Stream]:
    return [part_stream(queue, 1, index) for index in range(4)]


async def parts_of(app: App, name: str) -> int:
    return next(queue.partitions for queue in await app.admin.queues() if queue.name == name)


async def test_a_declared_queue_is_laid_out_when_it_is_first_used(store: Store, url: str) -> None:
    async with App(url) as app:
        emails = app.queue("emails", partitions=4)
        assert emails == Queue("emails", 4)
        assert str(emails) == "emails"

        @app.task(name="greet", queue=emails.name)
        async def greet(name: str) -> str:
            return f"hello {name}"

        jobs = [await greet.enqueue(str(number)) for number in range(20)]
        assert await parts_of(app, "emails") == 4
        assert (await app.admin.queues())[0] == QueueInfo(
            "emails", queued=20, oldest=(await app.admin.queues())[0].oldest, partitions=4
        )
        async with app.worker():
            assert [await job.result(timeout=10) for job in jobs] == [f"hello {n}" for n in range(20)]
        lain = [stream.name for stream in await store.streams()]
        assert sum("#1." in name for name in lain) == 4


async def test_a_worker_that_comes_first_lays_it_out_as_well(url: str) -> None:
    async with App(url) as app:
        app.queue("default", partitions=3)

        @app.task(name="add")
        async def add(left: int, right: int) -> int:
            return left + right

        async with app.worker():
            assert await (await add.enqueue(2, 3)).result(timeout=10) == 5
        assert await parts_of(app, "default") == 3


async def test_whoever_only_looks_lays_out_nothing(store: Store, url: str) -> None:
    """A dashboard may not have the right to."""
    async with App(url) as app:
        app.queue("emails", partitions=4)

        @app.task(queue="emails")
        async def greet() -> None: ...

        emails = Stream("queue", "emails")
        assert len(await app.admin.dead(queue="emails")) == 0
        assert await app.job("unknown", queue="emails").status() is JobStatus.UNKNOWN
        assert await app.admin.queues() == []
        assert await store.streams() == []
        await app.admin.pause("emails")
        await greet.enqueue()
        assert await parts_of(app, "emails") == 4
        assert all([(await store.counts(part)).paused for part in stored_parts(emails)])


async def test_what_is_stored_counts_and_a_difference_is_said_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(url) as first:

        @first.task(name="add")
        async def add() -> None: ...

        await add.enqueue()
    async with App(url) as second:
        second.queue("default", partitions=8)

        @second.task(name="add")
        async def again() -> None: ...

        with caplog.at_level(logging.WARNING, "headrace"):
            await again.enqueue()
            await again.enqueue()
        assert [record.message for record in caplog.records if "partitions" in record.message] == [
            "queue 'default' is declared with 8 partitions and has 1: what is stored counts;"
            " `headrace split` changes it"
        ]
        assert await parts_of(second, "default") == 1
        finding = await diagnosed(second)
        assert finding.level is Level.WARN
        assert "default (8 declared, 1 stored)" in finding.text
        assert "headrace split MODULE:APP QUEUE PARTITIONS" in finding.remedy
        await second.admin.split("default", 8)
        assert (await diagnosed(second)).level is Level.OK


async def diagnosed(app: App) -> Finding:
    return next(finding for finding in await app.admin.doctor() if finding.name == "partitions")


async def test_without_a_declaration_the_doctor_says_nothing_of_it(url: str) -> None:
    async with App(url) as app:
        assert app.queue("emails") == Queue("emails")
        assert "partitions" not in [finding.name for finding in await app.admin.doctor()]


@pytest.mark.parametrize("partitions", [0, -1, 65, 2.5, "8", True])
def test_numbers_that_cannot_be_are_refused(partitions: object) -> None:
    with pytest.raises(ConfigurationError, match="partitions"):
        App("memory://").queue("emails", partitions=partitions)  # type: ignore[arg-type]


def test_names_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="queue name 'a#b'"):
        App("memory://").queue("a#b")


async def test_a_queue_is_split_under_a_worker(url: str) -> None:
    """A worker that waits at the parts from before hears of it."""
    async with App(url) as app, App(url) as operator:

        @app.task(name="add")
        async def add(left: int, right: int) -> int:
            return left + right

        async with app.worker():
            for parts in (3, 5, 1):
                await operator.admin.split("default", parts)
                jobs = [await add.enqueue(parts, number) for number in range(10)]
                results = [await job.result(timeout=10) for job in jobs]
                assert results == [parts + number for number in range(10)]
            assert await parts_of(app, "default") == 1


async def test_jobs_are_found_steered_and_ended_wherever_they_are(url: str) -> None:
    async with App(url) as app:

        @app.task(name="add", result_ttl=60)
        async def add(left: int, right: int) -> int:
            return left + right

        before = [await add.with_(delay=60).enqueue(number, 1) for number in range(5)]
        await app.admin.split("default", 3)
        after = [await add.with_(delay=60).enqueue(number, 2) for number in range(5)]
        jobs = [*before, *after]
        assert [await job.status() for job in jobs] == [JobStatus.SCHEDULED] * 10
        assert await jobs[0].cancel()
        assert await jobs[9].cancel()
        page = await app.admin.jobs("default", state="scheduled")
        assert {info.id for info in page} == {job.id for job in jobs[1:9]}
        assert all(info.queue == "default" for info in page)
        for job in jobs[1:9]:
            assert await app.admin.retry_now(job.id, queue="default")
        async with app.worker():
            assert [await job.result(timeout=10) for job in jobs[1:9]] == [2, 3, 4, 5, 2, 3, 4, 5]


async def test_pause_and_purge_are_for_all_parts_those_to_come_too(url: str) -> None:
    async with App(url) as app:

        @app.task(name="add")
        async def add() -> None: ...

        await app.admin.split("default", 3)
        await app.enqueue_many([add.call() for _ in range(20)])
        await app.admin.pause("default")
        await app.admin.split("default", 5)
        await app.enqueue_many([add.call() for _ in range(20)])
        async with app.worker():
            [queue] = await app.admin.queues()
            assert (queue.queued, queue.running, queue.paused) == (40, 0, True)
            assert await app.admin.purge("default") == 40
            await app.admin.resume("default")
            job = await add.enqueue()
            await job.wait(timeout=10)
