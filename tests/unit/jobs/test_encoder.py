"""From a call to its message: what is said of the id, and that many calls become the same messages as one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace import App, PayloadTooLarge, Task
from headrace.core.messages.message import are_alike, decode_envelope
from headrace.store import Batch, Message, Stream
from tests.support.intercepted_store import Calls, InterceptedStore


@pytest.fixture
def store() -> InterceptedStore:
    return InterceptedStore()


@pytest.fixture
def appends(store: InterceptedStore) -> Calls:
    return store.watch("append")


@pytest.fixture
async def app(store: InterceptedStore) -> AsyncIterator[App]:
    async with App(store=store) as app:
        yield app


@pytest.fixture
def double(app: App) -> Task[[int], int]:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    return double


def last_batch(appends: Calls) -> Batch:
    batch: Batch = appends.made[-1][0]
    return batch


async def test_an_id_that_was_made_is_fresh(double: Task[[int], int], appends: Calls) -> None:
    for task in (double, double.with_(delay=5)):
        await task.enqueue(1)
        assert last_batch(appends).messages[0].fresh


async def test_an_id_that_was_given_may_be_known(double: Task[[int], int], appends: Calls) -> None:
    await double.with_(job_id="order-1").enqueue(1)
    assert not last_batch(appends).messages[0].fresh


async def test_many_calls_become_the_messages_that_single_ones_do(
    app: App, double: Task[[int], int], appends: Calls
) -> None:
    for call in (double.call(7), double.with_(priority="high", queue="other").call(7)):
        await app.enqueue(call)
        alone = last_batch(appends)
        await app.enqueue_many([call, call])
        many = last_batch(appends)
        assert many.stream == alone.stream
        for one, other in zip(alone.messages * 2, many.messages, strict=True):
            assert (one.task, one.priority) == (other.task, other.priority)
            assert decode_envelope(one.body).payload == decode_envelope(other.body).payload
            assert decode_envelope(other.body).id == other.id != one.id


async def test_messages_are_alike_that_differ_in_id_and_body_alone(
    double: Task[[int], int], appends: Calls
) -> None:
    async def message_of(task: Task[[int], int], number: int) -> Message:
        await task.enqueue(number)
        return last_batch(appends).messages[0]

    async def alike(task: Task[[int], int]) -> object:
        return are_alike([await message_of(double, 1), await message_of(task, 2)])

    assert await alike(double)
    assert not await alike(double.with_(priority="low"))
    assert not await alike(double.with_(delay=1))
    assert not await alike(double.with_(expires=1))
    assert not await alike(double.with_(unique=True))
    assert not await alike(double.with_(job_id="order-1"))


async def test_when_one_of_many_is_wrong_none_is_stored(app: App, store: InterceptedStore) -> None:
    @app.task(name="keep")
    async def keep(data: bytes) -> None: ...

    calls = [keep.call(b"small") for _ in range(2_000)]
    with pytest.raises(PayloadTooLarge):
        await app.enqueue_many([*calls, keep.call(b"x" * (2 << 20))])
    assert (await store.counts(Stream("queue", "default"))).queued == 0
