"""What goes wrong says so: one tree of errors, and nothing is lost by any of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace import (
    App,
    BackendUnavailable,
    ConfigurationError,
    HeadraceError,
    InvalidPayload,
    JobExpired,
    PayloadTooLarge,
    QueueFull,
    ResultTimeout,
    UnknownTask,
)


def test_a_wrong_url_or_option_is_told_where_it_is_written() -> None:
    with pytest.raises(ConfigurationError, match="mysql://"):
        App("mysql://localhost")
    with pytest.raises(ConfigurationError, match="max_payload"):
        App("memory://", max_payload=0)


async def test_everything_hangs_on_one_tree() -> None:
    app = App("memory://")

    @app.task(name="send")
    async def send(to: str) -> None: ...

    for mistake in (InvalidPayload, PayloadTooLarge, UnknownTask, QueueFull, BackendUnavailable):
        assert issubclass(mistake, HeadraceError)
    with pytest.raises(InvalidPayload, match="missing a required argument: 'to'"):
        await send.enqueue()  # type: ignore[call-arg]


async def test_arguments_that_cannot_be_sent_are_refused_before_anything_is() -> None:
    app = App("memory://", max_payload=1000)

    @app.task(name="store")
    async def store(thing: object) -> None: ...

    with pytest.raises(InvalidPayload, match="cannot be sent"):
        await store.enqueue(open)
    with pytest.raises(PayloadTooLarge, match="send a reference instead"):
        await store.enqueue("x" * 2000)
    assert await app.admin.queues() == []


async def test_a_task_of_another_app_is_not_known_here() -> None:
    app, other = App("memory://"), App("memory://")

    @other.task(name="elsewhere")
    async def elsewhere() -> None: ...

    with pytest.raises(UnknownTask, match="elsewhere"):
        await app.enqueue(elsewhere.call())


async def test_a_full_queue_says_what_it_took() -> None:
    app = App("memory://", queue_limit=2)

    @app.task(name="wait")
    async def wait(number: int) -> None: ...

    with pytest.raises(QueueFull) as caught:
        await app.enqueue_many([wait.call(number) for number in range(5)])
    assert len(caught.value.accepted) == 2


async def test_a_result_that_is_not_there_in_time_may_be_asked_for_again() -> None:
    app = App("memory://")

    @app.task(name="slow")
    async def slow() -> str:
        await asyncio.sleep(0)
        return "there"

    job = await slow.enqueue()
    with pytest.raises(ResultTimeout):
        await job.result(timeout=0.01)
    await app.worker().run(burst=True)
    assert await job.result(timeout=1) == "there"


async def test_a_job_that_was_not_started_in_time_is_expired() -> None:
    from headrace.testing import memory

    app = App("memory://")

    @app.task(name="news", expires=60)
    async def news() -> str:
        return "old by now"

    with memory(app) as kit:
        job = await news.enqueue()
        kit.clock.advance(61)
        await kit.drain()
        with pytest.raises(JobExpired):
            await job.result()


async def test_a_store_that_cannot_write_says_what_to_do(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/no/such/folder/jobs.db")

    @app.task(name="anything")
    async def anything() -> None: ...

    with pytest.raises(HeadraceError, match="folder"):
        await anything.enqueue()
