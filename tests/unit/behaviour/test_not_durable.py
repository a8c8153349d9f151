"""`NotDurable`: what a store took but could not confirm is told with the jobs and events themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace import App, Job, JobStatus, NotDurable, Refused
from headrace.core.errors import NotConfirmed
from headrace.core.messages.message import Batch
from headrace.core.records.answers import Answer
from headrace.core.runtime.clock import SystemClock
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore


class UnconfirmedStore(MemoryStore):
    """Takes everything and confirms nothing."""

    async def append(self, batch: Batch) -> list[Answer]:
        raise NotConfirmed("not on two", answers=await super().append(batch))


@pytest.fixture
async def app() -> AsyncIterator[App]:
    app = App(store=UnconfirmedStore(SharedState(), name="test", clock=SystemClock()))
    async with app:
        yield app


async def test_enqueue_tells_the_job_and_enqueue_many_all_of_them(app: App) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(NotDurable, match="not on two") as caught:
        await add.enqueue(1, 2)
    assert isinstance(caught.value.job, Job)
    assert await caught.value.job.status() is JobStatus.QUEUED
    with pytest.raises(NotDurable) as caught:
        await app.enqueue_many([add.call(1, 2), add.with_(queue="other").call(3, 4)])
    assert [job.queue for job in caught.value.accepted] == ["default", "other"]
    assert caught.value.job == caught.value.accepted[0]


async def test_publish_tells_the_id_of_the_event(app: App) -> None:
    topic = app.topic("numbers", int)
    with pytest.raises(NotDurable, match="not on two") as caught:
        await topic.publish(7)
    assert ([caught.value.event], caught.value.job) == (await event_ids(app), None)
    outcomes = await topic.publish_many([8, 9])
    errors = [each.error for each in outcomes if isinstance(each, Refused)]
    told = [error.event for error in errors if isinstance(error, NotDurable)]
    assert told == (await event_ids(app))[1:]


async def event_ids(app: App) -> list[str]:
    return [event.id async for event in app.admin.tail("numbers", since="beginning", follow=False)]
