"""`on_duplicate` and `debounce`: what enqueueing a job again does that is there already."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import App, ConfigurationError, DuplicateJob, JobStatus, SignedCodec, signals
from headrace.core.crypto.keys import new_key
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Batch
from headrace.core.records.answers import Answer
from headrace.core.runtime.clock import MovableClock
from tests.support.intercepted_store import InterceptedStore
from tests.unit.behaviour.work import LONG, drain, of, until

# --- replace ----------------------------------------------------------------------------------------------


async def test_a_waiting_job_gets_the_new_arguments_and_keeps_its_id(app: App) -> None:
    seen: list[int] = []

    @app.task(name="see", on_duplicate="replace")
    async def see(n: int) -> int:
        seen.append(n)
        return n

    first = await see.with_(unique_key="k").enqueue(1)
    second = await see.with_(unique_key="k", priority="high").enqueue(2)
    assert second.id == first.id
    assert (first.duplicate, second.duplicate) == (False, True)
    await drain(app)
    assert seen == [2]
    assert await first.result() == await second.result() == 2


async def test_a_running_job_stays_and_the_new_one_is_a_job_of_its_own(app: App) -> None:
    seen: list[int] = []
    go = asyncio.Event()

    @app.task(name="see", unique=True, on_duplicate="replace")
    async def see(n: int = 0) -> None:
        seen.append(n)
        await go.wait()

    first = await see.enqueue()
    async with app.worker(concurrency=1, lease=LONG):
        await until(first, JobStatus.RUNNING)
        second = await see.enqueue()
        third = await see.enqueue()
        go.set()
        await second.wait()
    assert first.id != second.id == third.id
    assert (second.duplicate, third.duplicate) == (False, True)
    assert seen == [0, 0]


async def test_a_call_may_replace_where_the_task_keeps(app: App) -> None:
    @app.task(name="see", unique=True)
    async def see(n: int) -> int:
        return n

    first = await see.with_(unique_key="k").enqueue(1)
    assert (await see.with_(unique_key="k").enqueue(2)).id == first.id
    replaced = await see.with_(unique_key="k", on_duplicate="replace").enqueue(3)
    assert (replaced.id, replaced.duplicate) == (first.id, True)
    await drain(app)
    assert await first.result() == 3


async def test_many_calls_replace_each_other(app: App) -> None:
    @app.task(name="see", on_duplicate="replace")
    async def see(n: int) -> int:
        return n

    jobs = await app.enqueue_many([see.call(n).with_(unique_key="k") for n in range(5)])
    assert len({job.id for job in jobs}) == 1
    assert [job.duplicate for job in jobs] == [False, True, True, True, True]
    await drain(app)
    assert await jobs[0].result() == 4


async def test_signed_arguments_can_replace_others() -> None:
    app = App("memory://", codec=SignedCodec(new_key()))
    seen: list[int] = []

    @app.task(name="see", on_duplicate="replace")
    async def see(n: int) -> None:
        seen.append(n)

    for n in range(3):
        job = await see.with_(unique_key="k").enqueue(n)
    contents = await app.admin.contents(job.id)
    assert contents is not None
    assert contents.args == (2,)
    await drain(app)
    assert seen == [2]
    await app.close()


async def test_a_replaced_job_is_announced_as_a_duplicate(app: App, heard: list[signals.Signal]) -> None:
    @app.task(name="see", on_duplicate="replace")
    async def see(n: int) -> None: ...

    for n in range(2):
        await see.with_(unique_key="k").enqueue(n)
    assert [signal.duplicate for signal in of(signals.JobEnqueued, heard)] == [False, True]


async def test_a_lost_answer_replaces_once(app: App, store: InterceptedStore) -> None:
    @app.task(name="see", on_duplicate="replace")
    async def see(n: int) -> int:
        return n

    first = await see.with_(unique_key="k").enqueue(1)
    lose_answers(store)
    second = await see.with_(unique_key="k").enqueue(2)
    assert (second.id, second.duplicate) == (first.id, True)


# --- raise ------------------------------------------------------------------------------------------------


async def test_a_duplicate_raises_with_the_job_that_is_there(app: App, heard: list[signals.Signal]) -> None:
    @app.task(name="see", unique=True, on_duplicate="raise")
    async def see(n: int) -> None: ...

    first = await see.enqueue(1)
    with pytest.raises(DuplicateJob, match=first.id) as raised:
        await see.enqueue(1)
    assert raised.value.job.id == first.id
    assert raised.value.accepted == []
    assert len(of(signals.JobEnqueued, heard)) == 1


async def test_a_given_id_raises_too(app: App) -> None:
    @app.task(name="see", on_duplicate="raise")
    async def see(n: int) -> None: ...

    await see.with_(job_id="seven").enqueue(1)
    with pytest.raises(DuplicateJob):
        await see.with_(job_id="seven").enqueue(1)


async def test_many_calls_raise_with_those_that_were_accepted(app: App) -> None:
    @app.task(name="see", unique=True, on_duplicate="raise")
    async def see(n: int) -> None: ...

    first = await see.enqueue(1)
    with pytest.raises(DuplicateJob) as raised:
        await app.enqueue_many([see.call(n) for n in range(3)])
    assert raised.value.job.id == first.id
    assert len(raised.value.accepted) == 2
    assert first.id not in {job.id for job in raised.value.accepted}


async def test_a_lost_answer_does_not_make_a_job_its_own_duplicate(app: App, store: InterceptedStore) -> None:
    @app.task(name="see", unique=True, on_duplicate="raise")
    async def see(n: int) -> None: ...

    lose_answers(store)
    assert not (await see.enqueue(1)).duplicate
    assert len(await app.enqueue_many([see.call(2), see.call(3)])) == 2


async def test_a_job_that_the_store_knows_already_is_not_its_own_duplicate(
    app: App, store: InterceptedStore
) -> None:
    """The store has forgotten the batch, as after a failover, but not the job."""

    @app.task(name="see", unique=True, on_duplicate="raise")
    async def see(n: int) -> None: ...

    append = store.append

    async def twice(batch: Batch) -> list[Answer]:
        await append(batch)
        return await append(Batch(batch.stream, "another", 1, batch.messages, batch.limit))

    store.intercept("append", twice)
    await see.enqueue(1)


def lose_answers(store: InterceptedStore) -> None:
    """Lose the first answer to each append."""
    append, known = store.append, set[int]()

    async def lost(batch: Batch) -> Any:
        answers = await append(batch)
        if batch.number not in known:
            known.add(batch.number)
            raise BackendUnavailable("the answer was lost", uncertain=True)
        return answers

    store.intercept("append", lost)


# --- debounce ---------------------------------------------------------------------------------------------


async def test_a_debounced_job_runs_once_after_the_last_call_with_its_arguments(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    seen: list[str] = []

    @app.task(name="save", debounce=5)
    async def save(text: str) -> None:
        seen.append(text)

    calls = save.with_(unique_key="document-7")
    ids = set()
    for text in ("a", "ab", "abc"):
        ids.add((await calls.enqueue(text)).id)
        clock.advance(4)
        await drain(app)
    assert len(ids) == 1
    assert seen == []
    clock.advance(2)
    await drain(app)
    assert seen == ["abc"]
    clock.advance(60)
    await drain(app)
    assert seen == ["abc"]


async def test_without_a_key_calls_with_the_same_arguments_belong_together(
    app: App, clock: MovableClock
) -> None:
    seen: list[int] = []

    @app.task(name="save", debounce=5)
    async def save(n: int) -> None:
        seen.append(n)

    jobs = [await save.enqueue(n) for n in (1, 1, 2)]
    assert jobs[0].id == jobs[1].id != jobs[2].id
    clock.advance(6)
    await drain(app)
    assert sorted(seen) == [1, 2]


async def test_while_a_debounced_job_runs_a_call_makes_a_new_one(app: App, clock: MovableClock) -> None:
    seen: list[str] = []
    go = asyncio.Event()

    @app.task(name="save", debounce=5)
    async def save(text: str) -> None:
        seen.append(text)
        await go.wait()

    calls = save.with_(unique_key="document-7")
    first = await calls.enqueue("a")
    clock.advance(6)
    async with app.worker(lease=LONG):
        await until(first, JobStatus.RUNNING)
        second = await calls.enqueue("b")
        go.set()
        await first.wait()
    assert second.id != first.id
    assert await second.status() is JobStatus.SCHEDULED
    clock.advance(6)
    await drain(app)
    assert seen == ["a", "b"]


async def test_a_call_may_debounce_or_not(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> None: ...

    @app.task(name="save", debounce=5)
    async def save(n: int) -> None: ...

    assert await (await see.with_(debounce=3).enqueue(1)).status() is JobStatus.SCHEDULED
    assert await (await save.with_(unique=False).enqueue(1)).status() is JobStatus.QUEUED


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"debounce": 5, "unique_until": "finished"}, "leave unique_until out"),
        ({"debounce": 5, "on_duplicate": "raise"}, "leave on_duplicate out"),
        ({"debounce": 0}, "debounce"),
        ({"on_duplicate": "ignore"}, "'keep', 'replace' or 'raise'"),
    ],
    ids=lambda value: str(value),
)
async def test_options_that_contradict_each_other_are_refused(
    app: App, options: dict[str, Any], says: str
) -> None:
    async def see(n: int) -> None: ...

    with pytest.raises(ConfigurationError, match=says):
        app.task(name="see", **options)(see)
    with pytest.raises(ConfigurationError, match=says):
        app.task(name="hear")(see).with_(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"unique_until": 60}, "leave unique_until out"),
        ({"on_duplicate": "keep"}, "leave on_duplicate out"),
        ({"delay": 60}, "leave delay= and at= out"),
        ({"job_id": "seven"}, "write unique_key= instead"),
    ],
    ids=lambda value: str(value),
)
async def test_a_call_of_a_debounced_task_cannot_say_otherwise(
    app: App, options: dict[str, Any], says: str
) -> None:
    @app.task(name="save", debounce=5)
    async def save(n: int) -> None: ...

    with pytest.raises(ConfigurationError, match=says):
        await save.with_(**options).enqueue(1)
