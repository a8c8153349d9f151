"""What a doctor tells of queues, topics and workers: each line once ok, and once not."""

from __future__ import annotations

import time

import pytest

from headrace import App, RetryPolicy
from headrace.admin.looking import diagnosis
from headrace.core.errors import BackendUnavailable
from headrace.core.records.record import WorkerInfo
from headrace.core.runtime.clock import SECOND, MovableClock
from headrace.testing.contract.kit.heartbeats import beat
from tests.support.doctor_findings import OK, WARN, examined
from tests.support.intercepted_store import InterceptedStore
from tests.unit.behaviour.work import drain


def worker(*queues: str, groups: tuple[str, ...] = (), quiet: float = 0.0) -> WorkerInfo:
    now_us = round((time.time() - quiet) * SECOND)
    return WorkerInfo("worker-1", "host", 1, now_us, queues, 10, polled_us=now_us, groups=groups)


async def test_a_store_that_nobody_uses_is_well(app: App) -> None:
    found = await examined(app)
    assert [finding.name for finding in found.all] == [
        *("store", "workers", "served", "paused", "queues", "groups", "dead letters"),
    ]
    assert {finding.level for finding in found.all} == {OK}
    assert "ends with it" in found["store"].text


async def test_work_without_a_worker_is_told(app: App, store: InterceptedStore) -> None:
    @app.task(queue="mails")
    async def mail() -> None: ...

    await mail.enqueue()
    found = await examined(app)
    assert (found.level("workers"), found.level("served")) == (WARN, WARN)

    await beat(store, worker("default"))
    found = await examined(app)
    assert (found.level("workers"), found.level("served")) == (OK, WARN)
    assert "mails (1)" in found["served"].text

    await beat(store, worker("mails"))
    assert (await examined(app)).level("served") == OK


async def test_what_is_due_waits_too(app: App, clock: MovableClock) -> None:
    @app.task
    async def mail() -> None: ...

    await mail.with_(delay=60).enqueue()
    assert (await examined(app)).level("served") == OK
    clock.advance(61)
    assert (await examined(app)).level("served") == WARN


async def test_a_worker_that_does_not_ask_is_told(app: App, store: InterceptedStore) -> None:
    await beat(store, worker("default", quiet=60))
    found = await examined(app)
    assert found.level("workers") == WARN
    assert "worker-1" in found["workers"].text
    await beat(store, worker("default"))
    assert (await examined(app)).level("workers") == OK


async def test_a_paused_queue_is_told_once_work_waits(app: App) -> None:
    @app.task
    async def mail() -> None: ...

    await mail.enqueue()
    await drain(app)
    await app.admin.pause("default")
    assert (await examined(app)).level("paused") == OK
    await mail.enqueue()
    assert (await examined(app)).level("paused") == WARN
    await app.admin.resume("default")
    assert (await examined(app)).level("paused") == OK


async def test_groups_that_lag_are_told(
    app: App, store: InterceptedStore, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = app.topic("orders", int)

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: int) -> None: ...

    await drain(app)
    await orders.publish(1)
    found = await examined(app)
    assert found.level("groups") == OK
    assert found.level("served") == WARN
    assert "orders/billing (1)" in found["served"].text

    clock.advance(301)
    assert (await examined(app)).level("groups") == OK  # without a worker more workers are no remedy
    await beat(store, worker(groups=("orders/billing",)))
    assert (await examined(app)).level("groups") == WARN
    await drain(app)
    await beat(store, worker(groups=("orders/billing",)))
    assert (await examined(app)).level("groups") == OK

    monkeypatch.setattr(diagnosis, "LATE_EVENTS", 2)
    await orders.publish(2)
    await orders.publish(3)
    found = await examined(app)
    assert found.level("groups") == WARN
    assert "orders/billing (2)" in found["groups"].text


async def test_a_queue_that_does_not_keep_up_is_told(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    @app.task(queue="mails")
    async def mail() -> None: ...

    await beat(store, worker("mails"))
    await mail.enqueue()
    clock.advance(290)
    assert (await examined(app)).level("queues") == OK
    clock.advance(11)
    await beat(store, worker("mails"))
    found = await examined(app)
    assert found.level("queues") == WARN
    assert "mails (1)" in found["queues"].text


async def test_dead_letters_are_told(app: App) -> None:
    @app.task(queue="mails", retry=RetryPolicy.none())
    async def mail() -> None:
        raise ValueError("no")

    assert (await examined(app)).level("dead letters") == OK
    await mail.enqueue()
    await drain(app)
    found = await examined(app)
    assert found.level("dead letters") == WARN
    assert "mails (1)" in found["dead letters"].text


async def test_tasks_that_the_app_does_not_have_are_told() -> None:
    url = "memory://two-releases"
    old, new = App(url), App(url)

    @old.task(name="shop.renamed")
    async def before() -> None: ...

    @new.task(name="shop.new")
    async def after() -> None: ...

    async with old, new:
        await after.enqueue()
        assert (await examined(new)).level("tasks") == OK
        await before.enqueue()
        found = await examined(new)
    assert found.level("tasks") == WARN
    assert "shop.renamed in default" in found["tasks"].text


async def test_contents_that_cannot_be_looked_at_are_a_line(app: App, store: InterceptedStore) -> None:
    async def denied() -> list[WorkerInfo]:
        raise BackendUnavailable("the server denies this user a right")

    store.intercept("workers", denied)
    found = await examined(app)
    assert found.level("contents") == WARN
    assert "denies" in found["contents"].text


async def test_a_few_names_stand_for_many(app: App) -> None:
    for number in range(8):

        @app.task(name=f"t{number}", queue=f"q{number}")
        async def mail() -> None: ...

        await mail.enqueue()
    assert "q4 (1) and 3 more" in (await examined(app))["served"].text
