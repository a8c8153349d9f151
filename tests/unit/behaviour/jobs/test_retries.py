"""Failures: retried by the policy, by the handler's own word, or not at all."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace import (
    App,
    ConfigurationError,
    JobFailed,
    JobStatus,
    RetryLater,
    RetryPolicy,
    Snooze,
    Unrecoverable,
    current_job,
    signals,
)
from headrace.core.runtime.clock import MovableClock
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain, of, until


async def test_a_failed_job_is_tried_again_as_often_as_its_policy_says(app: App) -> None:
    attempts: list[int] = []

    @app.task(name="fail", retry=RetryPolicy.fixed(2, 0))
    async def fail() -> None:
        attempts.append(current_job().attempt)
        raise ValueError("no")

    job = await fail.enqueue()
    await drain(app)
    assert attempts == [1, 2, 3]
    assert await job.status() is JobStatus.DEAD


async def test_a_retry_that_succeeds_is_a_success(app: App) -> None:
    @app.task(name="fail", retry=RetryPolicy.exponential(3, base=0.001))
    async def fail_once() -> int:
        if current_job().attempt == 1:
            raise ValueError("no")
        return current_job().attempt

    job = await fail_once.enqueue()
    await drain(app)
    assert await job.result() == 2


async def test_a_plain_function_is_retried_in_the_same_way(app: App) -> None:
    @app.task(name="fail", retry=RetryPolicy.fixed(1, 0))
    def fail_once() -> int:
        if current_job().attempt == 1:
            raise ValueError("no")
        return current_job().attempt

    job = await fail_once.enqueue()
    await drain(app)
    assert await job.result() == 2


async def test_between_two_tries_a_job_is_retrying_and_waits_its_delay(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    runs = 0

    @app.task(name="fail", retry=RetryPolicy.fixed(1, 60))
    async def fail_once() -> int:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ValueError("not yet")
        return runs

    job = await fail_once.enqueue()
    async with app.worker(lease=LONG):
        await until(job, JobStatus.RETRYING)
        info = await job.info()
        assert (info.attempts, info.failures, info.error) == (1, 1, "ValueError: not yet")
        store.pass_time(59)
        assert await job.status() is JobStatus.RETRYING
        store.pass_time(1)
        assert await job.result(timeout=10) == 2
    (retrying,) = of(signals.JobRetrying, heard)
    assert (retrying.attempt, retrying.delay, retrying.why) == (1, 60.0, "ValueError: not yet")


async def test_without_a_policy_the_apps_holds() -> None:
    async with App("memory://", retry=RetryPolicy.fixed(1, 0)) as app:
        runs: list[str] = []

        @app.task(name="first")
        async def first() -> None:
            runs.append("first")
            raise ValueError("no")

        @app.task(name="second", retry=RetryPolicy.none())
        async def second() -> None:
            runs.append("second")
            raise ValueError("no")

        await first.enqueue()
        await second.enqueue()
        await drain(app)
        assert sorted(runs) == ["first", "first", "second"]


async def test_one_call_may_be_retried_otherwise(app: App) -> None:
    runs: list[int] = []

    @app.task(name="fail", retry=RetryPolicy.fixed(5, 0))
    async def fail() -> None:
        runs.append(1)
        raise ValueError("no")

    await fail.with_(retry=RetryPolicy.none()).enqueue()
    await drain(app)
    assert len(runs) == 1
    await fail.with_(retry=RetryPolicy.fixed(2, 0)).enqueue()
    await drain(app)
    assert len(runs) == 4


async def test_a_policy_may_be_a_function_of_failures_and_error(app: App) -> None:
    asked: list[tuple[int, str]] = []

    def policy(failures: int, error: BaseException) -> float | None:
        asked.append((failures, str(error)))
        return 0 if failures < 3 else None

    @app.task(name="fail", retry=policy)
    async def fail() -> None:
        raise ValueError(f"attempt {current_job().attempt}")

    job = await fail.enqueue()
    await drain(app)
    assert asked == [(1, "attempt 1"), (2, "attempt 2"), (3, "attempt 3")]
    assert await job.status() is JobStatus.DEAD


async def test_a_function_may_answer_a_timedelta(app: App, clock: MovableClock) -> None:
    @app.task(name="fail", retry=lambda failures, error: timedelta(minutes=1))
    async def fail() -> None:
        raise ValueError("no")

    job = await fail.enqueue()
    async with app.worker(lease=LONG):
        await until(job, JobStatus.RETRYING)
    due = (await job.info()).due_at
    assert due is not None
    assert due.timestamp() == pytest.approx(clock.now_us() / 1e6 + 60, abs=5)


@pytest.mark.parametrize("answer", ["soon", -1, float("nan"), float("inf"), True])
async def test_a_policy_that_answers_nonsense_ends_the_job_with_its_own_error(
    app: App, answer: float
) -> None:
    @app.task(name="fail", retry=lambda failures, error: answer)
    async def fail() -> int:
        raise ValueError("the handler's own")

    job = await fail.enqueue()
    await drain(app)
    with pytest.raises(JobFailed, match="the handler's own"):
        await job.result()


async def test_a_policy_that_fails_ends_the_job_with_its_own_error(app: App) -> None:
    def policy(failures: int, error: BaseException) -> float:
        raise KeyError("a bug in the policy")

    @app.task(name="fail", retry=policy)
    async def fail() -> int:
        raise ValueError("the handler's own")

    job = await fail.enqueue()
    await drain(app)
    with pytest.raises(JobFailed, match="the handler's own"):
        await job.result()


# --- what a handler says -------------------------------------------------------------------------------


async def test_retry_later_chooses_its_own_delay_and_counts_as_a_failure(
    app: App, store: InterceptedStore
) -> None:
    @app.task(name="fail", retry=RetryPolicy.fixed(1, 0))
    async def later() -> int:
        if current_job().attempt == 1:
            raise RetryLater(timedelta(minutes=5), "the bank is closed")
        return current_job().attempt

    job = await later.enqueue()
    async with app.worker(lease=LONG):
        await until(job, JobStatus.RETRYING)
        info = await job.info()
        assert (info.failures, info.error) == (1, "headrace.RetryLater: the bank is closed")
        store.pass_time(300)
        assert await job.result(timeout=10) == 2


async def test_retry_later_is_bounded_by_the_policys_retries(app: App) -> None:
    runs: list[int] = []

    @app.task(name="fail", retry=RetryPolicy.fixed(2, 0))
    async def later() -> None:
        runs.append(1)
        raise RetryLater(0)

    job = await later.enqueue()
    await drain(app)
    assert len(runs) == 3
    assert await job.status() is JobStatus.DEAD


async def test_a_snoozed_job_is_scheduled_and_spends_no_attempt(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    attempts: list[int] = []

    @app.task(name="nap", retry=RetryPolicy.none())
    async def nap() -> str:
        attempts.append(current_job().attempt)
        if len(attempts) <= 5:
            raise Snooze(60, "not my turn")
        return "done"

    job = await nap.enqueue()
    async with app.worker(lease=LONG):
        for naps in range(1, 6):
            await until(job, JobStatus.SCHEDULED)
            assert len(attempts) == naps
            store.pass_time(60)
            await wait_until(lambda naps=naps: len(attempts) > naps)  # type: ignore[misc]
        assert await job.result(timeout=10) == "done"
    assert attempts == [1] * 6
    assert of(signals.JobFailed, heard) == []
    assert {signal.why for signal in of(signals.JobRetrying, heard)} == {"snoozed"}


async def test_unrecoverable_goes_straight_to_the_dead_letters(app: App, heard: list[signals.Signal]) -> None:
    runs: list[int] = []

    @app.task(name="fail", retry=RetryPolicy.fixed(5, 0))
    def fail() -> int:
        runs.append(1)
        raise Unrecoverable("no such customer")

    job = await fail.enqueue()
    await drain(app)
    assert len(runs) == 1
    (letter,) = await app.admin.dead()
    assert (letter.reason, letter.error, letter.attempts) == ("unrecoverable", "no such customer", 1)
    with pytest.raises(JobFailed, match="no such customer"):
        await job.result()
    (died,) = of(signals.JobDied, heard)
    assert (died.reason, died.attempt) == ("unrecoverable", 1)


@pytest.mark.parametrize("directive", [RetryLater, Snooze])
@pytest.mark.parametrize("delay", [-1, "soon", None])
def test_a_directive_with_a_wrong_delay_is_a_configuration_error(
    directive: type[RetryLater] | type[Snooze], delay: float
) -> None:
    with pytest.raises(ConfigurationError, match="delay must be seconds"):
        directive(delay)


# --- what is said of a failure -------------------------------------------------------------------------


class OutOfStock(Exception):
    pass


async def test_a_failure_travels_as_type_message_and_traceback(app: App) -> None:
    @app.task(name="fail", retry=RetryPolicy.none())
    async def buy() -> int:
        raise OutOfStock("no more socks")

    job = await buy.enqueue()
    await drain(app)
    with pytest.raises(JobFailed) as failed:
        await job.result()
    assert failed.value.error_type.endswith("OutOfStock")
    assert failed.value.error == "no more socks"
    assert 'raise OutOfStock("no more socks")' in failed.value.traceback
    assert "headrace/engine" not in failed.value.traceback
    assert job.id in str(failed.value)
    info = await job.info()
    assert (info.reason, info.error, info.failures) == ("exhausted", "no more socks", 1)
    assert info.traceback == failed.value.traceback


async def test_the_traceback_of_a_plain_function_begins_in_it_too(app: App) -> None:
    @app.task(name="fail", retry=RetryPolicy.none())
    def buy() -> int:
        raise OutOfStock("no more socks")

    await buy.enqueue()
    await drain(app)
    (letter,) = await app.admin.dead()
    assert 'raise OutOfStock("no more socks")' in letter.traceback
    assert "headrace/engine" not in letter.traceback


async def test_the_trail_tells_what_went_wrong_and_when(app: App) -> None:
    @app.task(name="fail", retry=RetryPolicy.fixed(2, 0))
    async def fail() -> None:
        raise ValueError(f"attempt {current_job().attempt}")

    job = await fail.enqueue()
    await drain(app)
    trail = (await job.info()).trail
    assert [entry.text for entry in trail] == [f"ValueError: attempt {n}" for n in (1, 2, 3)]
    assert {entry.what for entry in trail} == {"failed"}
    assert [entry.at_us for entry in trail] == sorted(entry.at_us for entry in trail)


async def test_an_error_in_characters_that_cannot_be_stored_is_stored_all_the_same(app: App) -> None:
    @app.task(name="fail", retry=RetryPolicy.none())
    async def fail() -> None:
        raise FileNotFoundError("caf\udce9.txt")

    await fail.enqueue()
    await drain(app)
    (letter,) = await app.admin.dead()
    letter.error.encode()
    letter.traceback.encode()


async def test_a_success_tells_how_many_attempts_it_took(app: App) -> None:
    @app.task(name="third_time", retry=RetryPolicy.fixed(3, 0))
    async def third_time() -> str:
        if current_job().attempt < 3:
            raise ValueError("not yet")
        return "lucky"

    job = await third_time.enqueue()
    await app.worker().run(burst=True)
    info = await job.info()
    assert (info.status, info.attempts, info.failures, info.error) == (JobStatus.SUCCEEDED, 3, 2, "")
    assert [entry.text for entry in info.trail] == ["ValueError: not yet"] * 2
