"""Log lines kept with the job: `App(job_logs=…)`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import (
    App,
    ConfigurationError,
    Delivery,
    Job,
    JobStatus,
    RetryPolicy,
    Secret,
    Snooze,
    current_job,
)
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.job_log import LINE_BYTES, LINES_MOST, LOG_BYTES
from headrace.core.runtime.clock import MovableClock
from headrace.engine.running import slots as slots_module
from headrace.engine.upkeep import progress
from headrace.engine.worker import worker as worker_module
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain, until

log = logging.getLogger("shop.orders")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORT_EVERY", 0.01)


@pytest.fixture(autouse=True)
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    root.setLevel("INFO")
    yield root
    left = [handler for handler in root.handlers if handler not in handlers]
    root.setLevel(level)
    root.handlers[:] = handlers
    assert not left, "a stopped worker leaves no handler behind"


def logging_app(clock: MovableClock, lines: int = 10) -> App:
    return App("memory://", job_logs=lines, clock=clock)


@pytest.fixture
def app(clock: MovableClock) -> App:
    return logging_app(clock)


async def written(job: Job[Any]) -> list[tuple[int, str, str]]:
    return [(line.attempt, line.level, line.text) for line in (await job.info()).log]


async def until_written(job: Job[Any], text: str) -> None:
    async def is_written() -> bool:
        return any(line.text == text for line in (await job.info()).log)

    await wait_until(is_written, message=text)


async def test_what_a_coroutine_logs_is_seen_while_it_runs_and_afterwards(app: App) -> None:
    go = asyncio.Event()

    @app.task(name="read")
    async def read() -> int:
        log.info("read %d rows", 7)
        await go.wait()
        logging.getLogger("another").warning("slow")
        log.debug("not wanted")
        return 1

    job = await read.enqueue()
    async with app.worker():
        await until_written(job, "read 7 rows")
        info = await job.info()
        assert (info.status, info.progress) == (JobStatus.RUNNING, None)
        assert abs((info.log[0].at - datetime.now(UTC)).total_seconds()) < 60
        go.set()
        await job.result(timeout=10)
    assert await written(job) == [(1, "info", "read 7 rows"), (1, "warning", "slow")]


async def test_a_plain_function_logs_from_its_thread(app: App) -> None:
    @app.task(name="count")
    def count() -> str:
        log.info("counted")
        return threading.current_thread().name

    job = await count.enqueue()
    await drain(app)
    assert await job.result() != threading.current_thread().name
    assert await written(job) == [(1, "info", "counted")]


async def test_lines_stay_with_their_own_job(app: App) -> None:
    @app.task(name="say")
    async def say(text: str) -> int:
        for number in range(3):
            log.info("%s %d", text, number)
            await asyncio.sleep(0)
        return 1

    @app.task(name="say_in_thread")
    def say_in_thread(text: str) -> int:
        for number in range(3):
            log.info("%s %d", text, number)
        return 1

    jobs = {
        name: await task.enqueue(name)
        for task in (say, say_in_thread)
        for name in (f"{task.name}-{n}" for n in range(9))
    }
    await drain(app)
    for name, job in jobs.items():
        assert await written(job) == [(1, "info", f"{name} {number}") for number in range(3)]


async def test_every_attempt_adds_to_it_and_the_dead_letter_keeps_it(app: App) -> None:
    @app.task(name="fail", retry=RetryPolicy.fixed(2, 0))
    async def fail() -> None:
        log.error("attempt %d", current_job().attempt)
        raise ValueError("no")

    job = await fail.enqueue()
    await drain(app)
    info = await job.info()
    assert info.status is JobStatus.DEAD
    assert await written(job) == [(number, "error", f"attempt {number}") for number in (1, 2, 3)]
    await app.admin.replay(ids=[job.id])
    assert await written(job) == []


async def test_a_snooze_a_timeout_and_a_cancellation_keep_it(app: App) -> None:
    @app.task(name="nap")
    async def nap() -> None:
        log.info("sleepy")
        raise Snooze(3600)

    @app.task(name="hang", timeout=0.05, retry=RetryPolicy.none())
    async def hang() -> None:
        log.info("hanging")
        await asyncio.Event().wait()

    @app.task(name="go_on")
    async def go_on() -> None:
        log.info("on and on")
        await asyncio.Event().wait()

    snoozed, hanging, cancelled = await nap.enqueue(), await hang.enqueue(), await go_on.enqueue()
    async with app.worker(lease=LONG):
        await until(snoozed, JobStatus.SCHEDULED)
        await until(hanging, JobStatus.DEAD)
        await until_written(cancelled, "on and on")
        await cancelled.cancel()
        await until(cancelled, JobStatus.CANCELLED)
    texts = [await written(job) for job in (snoozed, hanging, cancelled)]
    assert texts == [[(1, "info", text)] for text in ("sleepy", "hanging", "on and on")]


async def test_a_shutdown_hands_the_job_back_with_what_it_wrote(app: App) -> None:
    @app.task(name="go_on")
    async def go_on() -> None:
        log.info("before the end")
        await asyncio.Event().wait()

    job = await go_on.enqueue()
    async with app.worker(grace=0):
        await until(job, JobStatus.RUNNING)
    assert await job.status() is JobStatus.QUEUED
    assert await written(job) == [(1, "info", "before the end")]


async def test_a_handler_that_will_not_end_leaves_what_it_wrote_with_the_job(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (worker_module, slots_module):
        monkeypatch.setattr(module, "CANCEL_WAIT", 0.01)
    inside, go = asyncio.Event(), asyncio.Event()

    @app.task(name="cling")
    async def cling() -> None:
        log.info("here I stand")
        inside.set()
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()

    job = await cling.enqueue()
    async with app.worker(grace=0.001, lease=LONG):
        await inside.wait()
    go.set()
    assert await job.status() is JobStatus.QUEUED
    assert await written(job) == [(1, "info", "here I stand")]


async def test_the_latest_lines_are_kept_and_the_others_counted(clock: MovableClock) -> None:
    app = logging_app(clock, lines=5)

    @app.task(name="chatter", retry=RetryPolicy.fixed(1, 0))
    async def chatter() -> None:
        for number in range(8):
            log.info("%d", number)
        raise ValueError

    job = await chatter.enqueue()
    await drain(app)
    info = await job.info()
    assert [(line.attempt, line.text) for line in info.log] == [(2, str(number)) for number in range(3, 8)]
    assert info.log_dropped == 11


async def test_long_lines_are_cut_and_all_of_them_are_bounded(clock: MovableClock) -> None:
    app = logging_app(clock, lines=LINES_MOST)

    @app.task(name="shout")
    async def shout() -> int:
        for _ in range(100):
            log.info("é" * 100_000)
        return 1

    job = await shout.enqueue()
    await drain(app)
    info = await job.info()
    assert all(len(line.text.encode()) <= LINE_BYTES and line.text.endswith("…") for line in info.log)
    assert sum(len(line.text.encode()) for line in info.log) <= LOG_BYTES
    assert len(info.log) + info.log_dropped == 100


async def test_an_error_is_logged_with_the_end_of_its_traceback(app: App) -> None:
    @app.task(name="careful")
    async def careful() -> int:
        try:
            raise KeyError("x" * 10_000 + " the end")
        except KeyError:
            log.exception("could not")
        return 1

    job = await careful.enqueue()
    await drain(app)
    [(_, level, text)] = await written(job)
    assert (level, text.split("\n")[0]) == ("error", "could not")
    assert text.endswith(" the end'")
    assert len(text.encode()) <= LINE_BYTES + 10


async def test_a_line_that_cannot_be_made_and_odd_characters_hurt_nobody(
    app: App, root: logging.Logger
) -> None:
    root.handlers[:] = []  # the test's own cannot pass on half a character

    @app.task(name="odd")
    async def odd() -> int:
        before, logging.raiseExceptions = logging.raiseExceptions, False
        try:
            log.info("%d rows", "seven")
        finally:
            logging.raiseExceptions = before
        log.info("half a pair \ud800 and \x00")
        log.handle(
            logging.makeLogRecord({"levelno": 30, "levelname": "\ud800", "msg": "of a level of its own"})
        )
        return 1

    job = await odd.enqueue()
    await drain(app)
    assert await job.result() == 1
    assert [(level, text) for _, level, text in await written(job)] == [
        ("info", "'%d rows'"),
        ("info", "half a pair \\ud800 and \x00"),
        ("\\ud800", "of a level of its own"),
    ]


async def test_what_cannot_even_be_shown_costs_a_line_and_not_the_job(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)

    class Hidden:
        def __repr__(self) -> str:
            raise ValueError("nothing to see")

    @app.task(name="hide", retry=RetryPolicy.none())
    async def hide() -> int:
        log.info(Hidden())
        log.info("seen")
        return 1

    job = await hide.enqueue()
    await drain(app)
    assert await job.result() == 1
    assert [text for _, _, text in await written(job)] == ["seen"]


async def test_secrets_are_masked(app: App) -> None:
    @app.task(name="pay")
    async def pay(card: Secret[str]) -> int:
        log.info("paid with %s, %r, %s", card, card, {"card": card})
        return 1

    job = await pay.enqueue(Secret("4111"))
    await drain(app)
    [(_, _, text)] = await written(job)
    assert "4111" not in text
    assert text.count("***") == 3


async def test_what_headrace_logs_itself_is_not_the_jobs(app: App, root: logging.Logger) -> None:
    from headrace.observability.logs import log_every_job

    root.setLevel("DEBUG")
    log_every_job(lambda kind, hear: app.on(kind)(hear))

    @app.task(name="quiet", retry=RetryPolicy.none())
    async def quiet() -> int:
        raise ValueError

    job = await quiet.enqueue()
    await drain(app)
    assert await written(job) == []


async def test_without_the_option_nothing_is_attached_or_kept(
    clock: MovableClock, root: logging.Logger
) -> None:
    app = App("memory://", clock=clock)
    seen: list[list[logging.Handler]] = []

    @app.task(name="work")
    async def work() -> int:
        log.info("not kept")
        seen.append(list(root.handlers))
        return 1

    before = list(root.handlers)
    job = await work.enqueue()
    await drain(app)
    assert seen == [before]
    assert await written(job) == []


async def test_two_apps_of_a_process_keep_what_is_theirs_once(clock: MovableClock) -> None:
    apps = [logging_app(clock), logging_app(clock), App("memory://", clock=clock)]
    jobs = []
    for app in apps:

        @app.task(name="work")
        async def work() -> int:
            log.info("once")
            return 1

        jobs.append(await work.enqueue())
    async with apps[0].worker(), apps[1].worker(), apps[2].worker():
        for job in jobs:
            await job.result(timeout=10)
    assert [len(await written(job)) for job in jobs] == [1, 1, 0]


async def test_warnings_are_still_shown_where_no_logging_is_set_up(
    app: App, root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python shows records that have no handler. Our handler shows nothing, so they must still be shown."""
    root.handlers[:] = []
    shown: list[str] = []
    last = logging.Handler("WARNING")
    last.emit = lambda record: shown.append(record.getMessage())  # type: ignore[method-assign]
    monkeypatch.setattr(logging, "lastResort", last)
    elsewhere = logging.getLogger("handled")
    elsewhere.addHandler(logging.NullHandler())

    @app.task(name="work")
    async def work() -> int:
        log.warning("shown")
        log.info("not shown")
        elsewhere.warning("handled elsewhere")
        return 1

    job = await work.enqueue()
    await drain(app)
    elsewhere.handlers.clear()
    assert shown == ["shown"]
    assert len(await written(job)) == 3


async def test_a_store_that_was_away_gets_the_lines_later(app: App, store: InterceptedStore) -> None:
    report, failures = store.report_progress, [0]

    async def flaky(reports: Any) -> None:
        failures[0] += 1
        if failures[0] < 3:
            raise BackendUnavailable("away")
        await report(reports)

    store.intercept("report_progress", flaky)

    @app.task(name="work")
    async def work() -> None:
        log.info("kept")
        await asyncio.Event().wait()

    job = await work.enqueue()
    async with app.worker(grace=0):
        await until_written(job, "kept")


async def test_the_handler_of_an_event_logs_too_also_when_it_settles_itself(app: App) -> None:
    orders = app.topic("orders", int)

    @orders.subscribe(group="billing", start="beginning", retry=RetryPolicy.none())
    async def bill(number: int) -> None:
        log.info("billing %d", number)
        raise ValueError

    @orders.subscribe(group="audit", start="beginning", ack="manual")
    async def audit(delivery: Delivery[int]) -> None:
        log.info("auditing %d", delivery.payload)
        await delivery.reject("no")

    id = await orders.publish(7)
    await drain(app)
    for group, text in (("billing", "billing 7"), ("audit", "auditing 7")):
        info = await app.admin.job(id, topic="orders", group=group)
        assert info is not None
        assert [line.text for line in info.log] == [text]


@pytest.mark.parametrize("value", [-1, LINES_MOST + 1, True, "many", 1.5, None])
def test_the_option_is_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="job_logs is how many log lines are kept"):
        App("memory://", job_logs=value)
