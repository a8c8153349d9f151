"""Many results at once, and tasks by name."""

from __future__ import annotations

import asyncio

import pytest

from headrace import (
    App,
    AppClosed,
    ConfigurationError,
    InvalidPayload,
    JobCancelled,
    JobFailed,
    ResultTimeout,
    RetryPolicy,
    SignedCodec,
    UnknownTask,
)
from headrace.core.crypto.keys import new_key
from tests.integration.api.conftest import MakeApp


async def test_results_come_in_the_order_of_the_jobs(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def square(number: int) -> int:
        return number * number

    async with app.worker():
        jobs = await app.enqueue_many([square.call(number) for number in range(300)])
        assert await app.results(reversed(jobs), timeout=30) == [n * n for n in reversed(range(300))]
        assert await app.results([]) == []


async def test_a_caller_that_waits_learns_that_the_app_is_closed(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def never_run() -> int:
        return 1

    job = await never_run.enqueue()
    waiting = asyncio.create_task(job.result(timeout=30))
    await job.status()  # after this answer, the other call is under way
    await app.close()
    with pytest.raises(AppClosed):
        await waiting


async def test_the_first_error_is_raised_or_each_is_given(make_app: MakeApp) -> None:
    app = make_app(retry=RetryPolicy.none())

    @app.task
    async def halve(number: int) -> int:
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number // 2

    jobs = await app.enqueue_many([halve.call(2), halve.call(3), halve.call(4)])
    cancelled = await halve.with_(delay=3600).enqueue(8)
    await cancelled.cancel()
    await app.worker().run(burst=True)
    with pytest.raises(JobFailed, match="3 is odd"):
        await app.results(jobs, timeout=10)
    one, failed, two, gone = await app.results([*jobs, cancelled], timeout=10, return_exceptions=True)
    assert (one, two) == (1, 2)
    assert isinstance(failed, JobFailed)
    assert isinstance(gone, JobCancelled)


async def test_the_timeout_counts_for_all_together(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def later() -> int:
        return 1

    jobs = [await later.with_(delay=3600).enqueue() for _ in range(3)]
    with pytest.raises(ResultTimeout):
        await app.results(jobs, timeout=0.01)
    late = await app.results(jobs, 0.01, return_exceptions=True)
    assert [type(each) for each in late] == [ResultTimeout] * 3
    with pytest.raises(ConfigurationError, match="results takes jobs"):
        await app.results([jobs[0].id])  # type: ignore[arg-type]


def billing(app: App) -> None:
    @app.task(name="billing.send", queue="billing")
    async def send(order: int, *, to: str) -> str:
        return f"{order} to {to}"


@pytest.mark.parametrize("codec", [None, SignedCodec(new_key())])
async def test_a_task_is_enqueued_by_its_name(make_app: MakeApp, codec: SignedCodec | None) -> None:
    web, worker = make_app(codec=codec), make_app(codec=codec)
    billing(worker)
    send = web.remote("billing.send", queue="billing")
    async with worker.worker(queues=["billing"]):
        job = await send.enqueue(7, to="a@example.com")
        [many] = await web.enqueue_many([send.with_(job_id="second").call(8, to="b")])
        assert await web.results([job, many], timeout=10) == ["7 to a@example.com", "8 to b"]
        assert (many.id, many.task, many.queue) == ("second", "billing.send", "billing")
        again = await send.with_(job_id="second").enqueue(8, to="b")
        assert again.duplicate


async def test_the_worker_checks_the_arguments_of_a_remote_call(make_app: MakeApp) -> None:
    web, worker = make_app(), make_app()
    billing(worker)
    job = await web.remote("billing.send", queue="billing").enqueue("seven", to=1)
    await worker.worker(queues=["billing"]).run(burst=True)
    with pytest.raises(JobFailed, match="Expected `int`, got `str`"):
        await job.result(timeout=10)
    [letter] = await web.admin.dead(queue="billing")
    assert letter.reason == "invalid"


@pytest.mark.parametrize(("version", "result"), [(1, [7, 0]), (2, [7, 8])])
async def test_a_remote_call_says_for_which_version_it_is_written(
    make_app: MakeApp, version: int, result: list[int]
) -> None:
    app = make_app()

    @app.task(name="pair", version=2)
    async def pair(first: int, second: int) -> list[int]:
        return [first, second]

    @pair.upcast(from_version=1)
    def with_second(args: tuple[int, ...], kwargs: dict[str, int]) -> tuple[list[int], dict[str, int]]:
        return [args[0], 0], kwargs

    job = await app.remote("pair", version=version).enqueue(7, 8)
    async with app.worker():
        assert await job.result(timeout=10) == result


async def test_unique_keys_of_remote_calls_are_given(make_app: MakeApp) -> None:
    web = make_app()
    send = web.remote("billing.send", queue="billing")
    first = await send.with_(unique_key="order-7").enqueue(7, to="a")
    second = await send.with_(unique_key="order-7").enqueue(7, to="a")
    assert (second.id, second.duplicate) == (first.id, True)
    assert not (await send.enqueue(7, to="a")).duplicate


async def test_what_a_remote_task_cannot_do(make_app: MakeApp) -> None:
    web, other = make_app(), make_app()
    send = web.remote("billing.send")
    with pytest.raises(ConfigurationError, match=r"not here: use enqueue\(\)"):
        send(7)
    with pytest.raises(UnknownTask, match="another app"):
        await other.enqueue(send.call(7))
    with pytest.raises(ConfigurationError, match="task name"):
        web.remote("no spaces")
    with pytest.raises(InvalidPayload, match="cannot be sent"):
        await send.enqueue(object())
