"""Log records that say for which job they were written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import App
from headrace.observability.context import ATTRIBUTES, JobContext

from .conftest import Drain


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def logger() -> logging.Logger:
    return logging.getLogger("tests.observability.shop")


@pytest.fixture
def kept(logger: logging.Logger) -> Iterator[Kept]:
    handler = Kept()
    handler.addFilter(JobContext())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)


def facts(record: logging.LogRecord) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in ATTRIBUTES)


async def test_records_of_a_coroutine_and_of_a_thread_name_the_job(
    app: App, drain: Drain, kept: Kept, logger: logging.Logger
) -> None:
    @app.task(name="coroutine")
    async def coroutine() -> None:
        logger.info("here")

    @app.task(name="thread", queue="slow")
    def thread() -> None:
        logger.info("there")

    first, second = await coroutine.enqueue(), await thread.enqueue()
    await drain()
    assert {facts(record) for record in kept.records} == {
        (first.id, "coroutine", "default", 1),
        (second.id, "thread", "slow", 1),
    }


async def test_records_of_an_event_name_it_and_its_group(
    app: App, drain: Drain, kept: Kept, logger: logging.Logger
) -> None:
    orders = app.topic("orders", int)

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: int) -> None:
        logger.info("billed")

    id = await orders.publish(7)
    await drain()
    assert [facts(record) for record in kept.records] == [(id, "int", "orders/billing", 1)]


async def test_outside_of_jobs_they_are_empty_also_after_one(
    app: App, drain: Drain, kept: Kept, logger: logging.Logger
) -> None:
    @app.task
    async def nothing() -> None: ...

    @app.use
    async def after(run: Any, call_next: Any) -> object:
        value = await call_next(run)
        run.ended = True  # as it is when the slot's next step logs something
        logger.info("after")
        return value

    await nothing.enqueue()
    await drain()
    logger.info("outside")
    assert [facts(record) for record in kept.records] == [("", "", "", "")] * 2


async def test_what_the_user_says_with_extra_stays(
    app: App, drain: Drain, kept: Kept, logger: logging.Logger
) -> None:
    @app.task
    async def say() -> None:
        logger.info("mine", extra={"task": "my own"})

    job = await say.enqueue()
    await drain()
    [record] = kept.records
    assert facts(record)[:2] == (job.id, "my own")
