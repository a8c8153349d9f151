"""Tasks that take lists: a job has one element, and its own outcome."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from headrace import (
    App,
    BatchResult,
    ConfigurationError,
    Depends,
    InvalidPayload,
    JobFailed,
    JobStatus,
    RetryLater,
    RetryPolicy,
    Run,
    current_job,
    signals,
)
from tests.integration.api.conftest import MakeApp
from tests.support.waiting import wait_until


class Document(msgspec.Struct):
    number: int


def factor() -> int:
    return 10


async def test_jobs_run_together_and_each_has_its_result(make_app: MakeApp) -> None:
    app = make_app()
    lists: list[list[int]] = []
    started: list[signals.JobStarted] = []
    app.on(signals.JobStarted)(started.append)

    @app.task(batch=4)
    async def index(documents: list[Document], times: int = Depends(factor)) -> list[int]:
        lists.append([document.number for document in documents])
        return [document.number * times for document in documents]

    jobs = await app.enqueue_many([index.call(Document(number)) for number in range(10)])
    async with app.worker():
        assert await app.results(jobs, timeout=10) == [number * 10 for number in range(10)]
    assert sorted(number for each in lists for number in each) == list(range(10))
    assert max(map(len, lists)) == 4
    assert sorted(signal.id for signal in started) == sorted(job.id for job in jobs)


async def test_a_job_waits_for_others(make_app: MakeApp) -> None:
    app = make_app()
    lists: list[list[int]] = []

    @app.task(batch=3, batch_wait=3600)
    def index(numbers: list[int]) -> None:
        lists.append(numbers)

    async with app.worker():
        first = await index.enqueue(1)
        await wait_until_status(first, JobStatus.RUNNING)
        assert not lists
        others = [await index.enqueue(2), await index.enqueue(3)]
        for job in (first, *others):
            await job.wait(timeout=10)
    assert [sorted(each) for each in lists] == [[1, 2, 3]]


async def wait_until_status(job: Any, status: JobStatus) -> None:
    async def is_there() -> bool:
        return await job.status() is status

    await wait_until(is_there)


async def test_a_worker_that_stops_hands_back_what_it_gathers(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(batch=3, batch_wait=3600)
    async def index(numbers: list[int]) -> None: ...

    job = await index.enqueue(1)
    async with app.worker():
        await wait_until_status(job, JobStatus.RUNNING)
    assert await job.status() is JobStatus.QUEUED
    assert (await job.info()).attempts == 0


async def test_when_its_time_is_over_a_list_runs_as_it_is(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(batch=1000, batch_wait=0.02)
    async def index(numbers: list[int]) -> list[int]:
        return [len(numbers)] * len(numbers)

    async with app.worker():
        assert await (await index.enqueue(1)).result(timeout=10) == 1
    # A burst does not end before it.
    job = await index.enqueue(2)
    await app.worker().run(burst=True)
    assert await job.result(timeout=0) == 1


async def test_a_list_that_fails_is_halved_until_the_failing_job_is_alone(make_app: MakeApp) -> None:
    app = make_app(retry=RetryPolicy.none())
    calls = 0

    @app.task(name="index", batch=16)
    async def index(numbers: list[int]) -> list[int]:
        nonlocal calls
        calls += 1
        if 13 in numbers:
            raise ValueError("13 is no number")
        return numbers

    jobs = await app.enqueue_many([index.call(number) for number in range(16)])
    await app.worker().run(burst=True)
    results = await app.results(jobs, timeout=10, return_exceptions=True)
    assert isinstance(results.pop(13), JobFailed)
    assert results == [number for number in range(16) if number != 13]
    assert calls <= 1 + 2 * 4 + 15  # the halves of one list; a claim may have brought fewer


async def test_single_jobs_are_reported_failed(make_app: MakeApp) -> None:
    app = make_app(retry=RetryPolicy.fixed(1, 0))
    attempts: list[tuple[int, int]] = []

    @app.task(batch=10)
    async def index(numbers: list[int]) -> BatchResult:
        attempts.extend((number, current_job().attempt) for number in numbers)
        return BatchResult(failed={at: "odd" for at, number in enumerate(numbers) if number % 2})

    jobs = await app.enqueue_many([index.call(number) for number in range(4)])
    await app.worker().run(burst=True)
    letters = await app.admin.dead()
    assert {letter.id for letter in letters} == {jobs[1].id, jobs[3].id}
    assert {(letter.error, letter.attempts) for letter in letters} == {("odd", 2)}
    assert sorted(number for number, _ in attempts) == [0, 1, 1, 2, 3, 3]


async def test_an_element_may_be_sent_by_its_name(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(batch=2, batch_wait=3600)
    async def double(numbers: list[int]) -> list[int]:
        return [number * 2 for number in numbers]

    # A caller without the code sends the name as it is, and an upcast may give it.
    jobs = [await app.remote(double.name).enqueue(numbers=4), await double.enqueue(5)]
    async with app.worker():
        assert await app.results(jobs, timeout=10) == [8, 10]


async def test_a_tuple_of_results_is_as_good_as_a_list(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(batch=2)
    async def double(numbers: list[int]):  # type: ignore[no-untyped-def]
        return tuple(number * 2 for number in numbers)

    jobs = await app.enqueue_many([double.call(4), double.call(5)])
    async with app.worker():
        assert await app.results(jobs, timeout=10) == [8, 10]


async def test_a_wrong_number_of_results_is_an_error(make_app: MakeApp) -> None:
    app = make_app(retry=RetryPolicy.none())

    @app.task(batch=10)
    async def index(numbers: list[int]) -> list[int]:
        return []

    job = await index.enqueue(1)
    await app.worker().run(burst=True)
    with pytest.raises(JobFailed, match="returned 0 results for a list of 1"):
        await job.result(timeout=10)


async def test_the_timeout_applies_to_the_list_and_the_retries_to_each_job(make_app: MakeApp) -> None:
    app = make_app(history=0)
    lists: list[list[int]] = []

    @app.task(name="index", batch=2, timeout=0.05, retry=RetryPolicy.fixed(1, 0))
    async def index(numbers: list[int]) -> None:
        lists.append(numbers)
        if 2 in numbers:
            await asyncio.sleep(60)

    jobs = await app.enqueue_many([index.call(1), index.call(2)])
    await app.worker().run(burst=True)
    assert [await job.status() for job in jobs] == [JobStatus.UNKNOWN, JobStatus.DEAD]
    [letter] = await app.admin.dead()
    assert (letter.id, letter.error_type, letter.attempts) == (jobs[1].id, "TimeoutError", 2)


async def test_a_whole_list_is_retried_later(make_app: MakeApp) -> None:
    app = make_app()
    sizes: list[int] = []

    @app.task(batch=5)
    async def index(numbers: list[int]) -> list[int]:
        sizes.append(len(numbers))
        if current_job().attempt == 1:
            raise RetryLater(0)
        return numbers

    jobs = await app.enqueue_many([index.call(number) for number in range(5)])
    async with app.worker():
        assert await app.results(jobs, timeout=10) == list(range(5))
    assert sum(sizes) == 10
    assert index.name.endswith("index")


async def test_other_tasks_of_the_queue_run_beside_a_batch(make_app: MakeApp) -> None:
    app = make_app()
    around: list[object] = []

    async def middleware(run: Run, call_next: Any) -> object:
        around.append(run.args)
        return await call_next(run)

    app.use(middleware)

    @app.task(batch=100)
    async def index(numbers: list[int]) -> list[int]:
        return numbers

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    jobs = await app.enqueue_many([index.call(1), double.call(2), index.call(3), double.call(4)])
    async with app.worker():
        assert await app.results(jobs, timeout=10) == [1, 4, 3, 8]
    assert (2,) in around


async def test_the_element_is_checked_at_enqueue(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(batch=10)
    async def index(documents: list[Document]) -> None: ...

    for wrong in ("x", [Document(1)], Document("x")):  # type: ignore[arg-type]
        with pytest.raises(InvalidPayload):
            await index.enqueue(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 5, "run_in": "process"}, "write run_in='thread', or leave out batch="),
        ({"batch": 0}, "batch must be a whole number from 1"),
        ({"batch_wait": 1}, "write batch=100, batch_wait=0.05"),
        ({"batch": 5, "batch_wait": -1}, "batch_wait must be seconds"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    app = App("memory://")

    def index(numbers: list[int]) -> None: ...

    with pytest.raises(ConfigurationError, match=message):
        app.task(**options)(index)


def test_a_function_that_takes_no_list_is_refused() -> None:
    app = App("memory://")

    async def two(numbers: list[int], more: int) -> None: ...
    async def no_list(number: int) -> None: ...

    with pytest.raises(ConfigurationError, match=r"must take one list: write def two\(items: list\[Item\]\)"):
        app.task(batch=5)(two)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"write number: list\[Item\], not"):
        app.task(batch=5)(no_list)  # type: ignore[arg-type]


async def test_a_list_has_jobs_of_one_tenant(make_app: MakeApp) -> None:
    app = make_app()
    lists: list[list[str]] = []

    @app.task(batch=10, tenant_by="name")
    async def greet(name: list[str]) -> None:
        lists.append(name)

    await app.enqueue_many([greet.call(name) for name in "abcabcab"])
    await app.worker().run(burst=True)
    assert sorted("".join(each) for each in lists) == ["aaa", "bbb", "cc"]


async def test_ordered_jobs_are_in_lists_of_their_own(make_app: MakeApp) -> None:
    app = make_app()
    lists: list[list[str]] = []

    @app.task(batch=10, ordered_by="name")
    async def move(name: list[str]) -> None:
        lists.append(name)

    @app.task(batch=10)
    async def note(name: list[str]) -> None:
        lists.append(name)

    await app.enqueue_many([move.call(name) for name in "aabb"])
    await app.enqueue_many([note.with_(order_key=name).call(name) for name in "xyx"])
    await app.worker().run(burst=True)
    assert sorted(lists) == [["a"], ["a"], ["b"], ["b"], ["x"], ["x"], ["y"]]


async def test_each_job_of_a_list_counts_towards_the_limits(make_app: MakeApp) -> None:
    app = make_app()
    lists: list[list[int]] = []

    @app.task(batch=10, max_running=3)
    async def count(numbers: list[int]) -> None:
        lists.append(numbers)

    await app.enqueue_many([count.call(number) for number in range(10)])
    await app.worker().run(burst=True)
    assert max(map(len, lists)) == 3
    assert sorted(number for each in lists for number in each) == list(range(10))
