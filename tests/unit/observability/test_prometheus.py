"""What is counted and measured, as a real parser of the exposition format reads it."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from headrace import App, ConfigurationError, Snooze, Unrecoverable, signals
from headrace.core.runtime.clock import MovableClock
from headrace.observability import gauges as gauges_module
from headrace.observability import prometheus as prometheus_module
from headrace.observability.gauges import BoundedLabel, Gauges
from headrace.observability.prometheus import Metrics, _store_families, exposed, instrument
from tests.support.waiting import wait_until

from .conftest import Drain


class Read:
    """An exposition, by sample name and labels."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self.samples = [sample for family in self.families for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        found = [each.value for each in self.samples if each.name == name and each.labels == labels]
        assert len(found) == 1, (name, labels, [each for each in self.samples if each.name == name])
        return found[0]

    def values(self, name: str, label: str) -> set[str]:
        return {each.labels[label] for each in self.samples if each.name == name}


async def read(metrics: Metrics) -> Read:
    body, content_type = await metrics.render()
    assert content_type.startswith("text/plain")
    return Read(body.decode())


async def test_jobs_are_counted_by_how_they_ended_and_measured(app: App, drain: Drain) -> None:
    metrics = instrument(app)

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task(name="fail", queue="mails")
    async def fail() -> None:
        raise ValueError("no")

    @app.task(name="snooze")
    async def snooze() -> None:
        raise Snooze(3600)

    await app.enqueue_many([add.call(1, 2), add.call(3, 4), snooze.call(), fail.call()])
    await add.with_(job_id="once").enqueue(5, 6)
    await add.with_(job_id="once").enqueue(5, 6)
    await drain()
    told = await read(metrics)
    job = {"task": "add", "queue": "default"}
    assert told("headrace_jobs_enqueued_total", **job, outcome="accepted") == 3
    assert told("headrace_jobs_enqueued_total", **job, outcome="duplicate") == 1
    assert told("headrace_jobs_ended_total", **job, outcome="succeeded") == 3
    assert told("headrace_job_run_seconds_count", **job, outcome="succeeded") == 3
    assert told("headrace_job_wait_seconds_count", **job) == 3
    assert told("headrace_job_lateness_seconds_count", **job) == 3
    failing = {"task": "fail", "queue": "mails"}
    assert told("headrace_job_run_seconds_count", **failing, outcome="failed") == 2
    assert told("headrace_job_retries_total", **failing, outcome="failed") == 1
    assert told("headrace_jobs_ended_total", **failing, outcome="dead") == 1
    assert told("headrace_job_wait_seconds_count", **failing) == 2
    assert told("headrace_job_lateness_seconds_count", **failing) == 1  # a retry is not late
    assert told("headrace_job_retries_total", task="snooze", queue="default", outcome="snoozed") == 1
    assert told("headrace_job_lateness_seconds_count", task="snooze", queue="default") == 1


async def test_the_lateness_of_a_delayed_job_counts_from_when_it_was_due() -> None:
    clock = MovableClock()
    app = App("memory://", clock=clock)
    metrics = instrument(app)

    @app.task(name="add")
    async def add() -> None: ...

    await add.with_(delay=60).enqueue()
    clock.advance(67)
    await app.worker(lease=1e6).run(burst=True)
    told = await read(metrics)
    assert told("headrace_job_wait_seconds_sum", task="add", queue="default") == pytest.approx(67, abs=5)
    assert told("headrace_job_lateness_seconds_sum", task="add", queue="default") == pytest.approx(7, abs=5)
    await app.close()


async def test_events_are_counted_by_topic_and_group(app: App, drain: Drain) -> None:
    metrics = instrument(app)
    orders = app.topic("orders", int)

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: int) -> None:
        if order == 2:
            raise Unrecoverable("no")

    await orders.publish_many([1, 2, 3])
    await orders.publish(4, idempotency_key="four")
    await orders.publish(4, idempotency_key="four")
    await drain()
    told = await read(metrics)
    place = {"topic": "orders", "group": "billing"}
    assert told("headrace_events_published_total", topic="orders", outcome="accepted") == 4
    assert told("headrace_events_published_total", topic="orders", outcome="duplicate") == 1
    assert told("headrace_events_ended_total", **place, outcome="handled") == 3
    assert told("headrace_event_wait_seconds_count", **place) == 3
    assert 0 < told("headrace_event_wait_seconds_sum", **place) < 60
    assert told("headrace_events_ended_total", **place, outcome="dead") == 1
    assert told("headrace_event_run_seconds_count", **place, outcome="failed") == 1
    assert told("headrace_topic_events", topic="orders") == 4
    assert told("headrace_group_events", **place, state="dead") == 1
    assert told("headrace_group_lag_events", **place) == 0


async def test_trouble_is_counted(app: App) -> None:
    metrics = instrument(app)
    emit = app._emitter.emit
    emit(signals.BackendError("fetcher", "away", 1.0))
    emit(signals.LeaseLost("j", "add", "default", "w"))
    emit(signals.JobRecovered("j", "add", "default", 1, "w"))
    emit(signals.EventRecovered("e", "Placed", "orders", "billing", 1, "w"))
    emit(signals.EventRetrying("e", "Placed", "orders", "billing", 1, 5.0, "ValueError"))
    emit(signals.EventExpired("e", "Placed", "orders", "billing"))
    emit(signals.JobCancelled("j", "add", "default"))
    emit(signals.JobExpired("j", "add", "default"))
    emit(signals.ThreadOverdue("j", "add", "default", 1.0))
    told = await read(metrics)
    job, event = {"task": "add", "queue": "default"}, {"topic": "orders", "group": "billing"}
    assert told("headrace_store_errors_total", service="fetcher") == 1
    assert told("headrace_leases_lost_total", queue="default") == 1
    assert told("headrace_jobs_recovered_total", **job) == 1
    assert told("headrace_events_recovered_total", **event) == 1
    assert told("headrace_event_retries_total", **event, outcome="failed") == 1
    assert told("headrace_events_ended_total", **event, outcome="expired") == 1
    assert told("headrace_jobs_ended_total", **job, outcome="cancelled") == 1
    assert told("headrace_jobs_ended_total", **job, outcome="expired") == 1
    assert told("headrace_threads_overdue_total", **job) == 1


async def test_gauges_tell_what_is_in_the_store(app: App) -> None:
    metrics = instrument(app)

    @app.task(name="add", queue="mails")
    async def add() -> None: ...

    await app.enqueue_many([add.call(), add.call(), add.call().with_(delay=60)])
    await app.admin.pause("mails")
    told = await read(metrics)
    assert told("headrace_queue_jobs", queue="mails", state="queued") == 2
    assert told("headrace_queue_jobs", queue="mails", state="scheduled") == 1
    assert told("headrace_queue_paused", queue="mails") == 1
    assert 0 <= told("headrace_queue_oldest_seconds", queue="mails") < 60
    assert told("headrace_store_up") == 1
    assert told("headrace_workers") == 0


async def test_a_worker_that_is_watched_tells_its_slots_its_poll_and_its_renewals(app: App) -> None:
    metrics = instrument(app)
    release = asyncio.Event()

    @app.task(name="hang")
    async def hang() -> None:
        await release.wait()

    await hang.enqueue()
    async with app.worker(concurrency=7, lease=0.5) as worker:
        metrics.watch(worker)
        await wait_until(lambda: worker.running and worker.renewals >= 2)
        told = await read(metrics)
        assert told("headrace_worker_running") == 1
        assert told("headrace_worker_slots") == 7
        assert told("headrace_lease_renewals_total") >= 2
        assert told("headrace_worker_last_poll_timestamp_seconds") == pytest.approx(worker.last_poll, abs=60)
        release.set()


async def test_a_worker_with_every_slot_taken_is_not_taken_for_quiet(app: App) -> None:
    release = asyncio.Event()

    @app.task(name="hang")
    async def hang() -> None:
        await release.wait()

    await hang.enqueue()
    async with app.worker(concurrency=1) as worker:
        await wait_until(lambda: worker.running)
        busy_since = worker.last_poll
        await wait_until(lambda: worker.last_poll > busy_since)
        release.set()


async def test_openmetrics_is_given_to_who_asks_for_it(app: App, drain: Drain) -> None:
    metrics = instrument(app)

    @app.task(name="add")
    async def add() -> None: ...

    await add.enqueue()
    await drain()
    body, content_type = await metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    names = {family.name for family in read_openmetrics(body.decode())}  # type: ignore[no-untyped-call]
    assert {"headrace_jobs_ended", "headrace_queue_jobs"} <= names


async def test_names_are_escaped(app: App) -> None:
    metrics = instrument(app)
    nasty = 'a"b\\c\n{}'
    app._emitter.emit(signals.JobCancelled("j", nasty, "default"))
    assert (await read(metrics)).values("headrace_jobs_ended_total", "task") == {nasty}


async def test_labels_are_bounded(app: App) -> None:
    metrics = instrument(app, most_tasks=3)
    for number in range(500):
        app._emitter.emit(signals.JobCancelled("j", f"task-{number}", f"queue-{number}"))
        app._emitter.emit(signals.EventExpired("e", "kind", f"topic-{number}", f"group-{number}"))
    told = await read(metrics)
    assert told.values("headrace_jobs_ended_total", "task") == {"task-0", "task-1", "task-2", "other"}
    assert len(told.values("headrace_jobs_ended_total", "queue")) == 101
    assert len(told.values("headrace_events_ended_total", "topic")) == 101
    assert len(told.values("headrace_events_ended_total", "group")) == 101
    total = sum(each.value for each in told.samples if each.name == "headrace_jobs_ended_total")
    assert total == 500


class Admin:
    """As many queues as you like; may be away."""

    def __init__(self, queues: int = 0) -> None:
        self.asked = 0
        self.away = self.hangs = False
        self._queues = queues

    async def queues(self) -> Sequence[Any]:
        from headrace.admin import QueueInfo

        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.away:
            raise OSError("away")
        since = datetime.fromtimestamp(990, UTC)
        return [QueueInfo(f"queue-{number}", queued=2, oldest=since) for number in range(self._queues)]

    async def topics(self) -> Sequence[Any]:
        return []

    async def workers(self) -> Sequence[object]:
        return []

    async def outboxes(self) -> Sequence[Any]:
        return []


def made_gauges(admin: Admin) -> Gauges:
    return Gauges(
        admin,
        queue_label=BoundedLabel(),
        topic_label=BoundedLabel(),
        group_label=BoundedLabel(),
        now=lambda: 1000.0,
    )


async def test_of_very_many_queues_the_rest_is_one() -> None:
    gauges = made_gauges(Admin(queues=250))
    await gauges.refresh()
    assert gauges.counts is not None
    assert len(gauges.counts.queues) == 101
    other = gauges.counts.queues["other"]
    assert (other.counts["queued"], other.age) == (300, 10.0)


async def test_the_store_is_asked_once_for_many_scrapes() -> None:
    admin = Admin()
    gauges = made_gauges(admin)
    for _ in range(20):
        await gauges.refresh()
    assert (admin.asked, gauges.up) == (1, True)


async def test_a_store_that_is_away_or_hangs_fails_no_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(queues=1)
    gauges = made_gauges(admin)
    monkeypatch.setattr(gauges_module, "GOOD_FOR", -1.0)
    monkeypatch.setattr(gauges_module, "TIMEOUT", 0.01)
    await gauges.refresh()
    admin.away = True
    await gauges.refresh()
    assert (gauges.up, gauges.counts is not None) == (False, True)
    admin.away, admin.hangs = False, True
    await gauges.refresh()
    assert gauges.up is False
    monkeypatch.setattr(gauges_module, "TOO_OLD", -1.0)
    assert gauges.counts is None  # what was so a minute ago is not said as if it were so now
    admin.hangs = False
    await gauges.refresh()
    assert gauges.up is True


async def test_nobody_listens_before_an_app_is_instrumented(app: App) -> None:
    quiet: tuple[type[signals.Signal], ...] = (
        signals.JobStarted,
        signals.JobSucceeded,
        signals.JobEnqueued,
        signals.EventHandled,
    )
    assert app._emitter.wanted.isdisjoint(quiet)
    instrument(app)
    assert app._emitter.wanted.issuperset(quiet)


async def test_an_app_is_instrumented_once(app: App) -> None:
    metrics = instrument(app)
    assert instrument(app) is metrics
    assert exposed(app) is metrics
    with pytest.raises(ConfigurationError, match="another registry"):
        instrument(app, registry=CollectorRegistry())


async def test_two_apps_do_not_share_a_registry(app: App) -> None:
    registry = CollectorRegistry()
    instrument(app, registry=registry)
    other = App("memory://")
    with pytest.raises(ConfigurationError, match="a registry of its own"):
        instrument(other, registry=registry)
    instrument(other)
    await other.close()


async def test_who_exposes_an_app_has_the_numbers_of_the_process_beside_it(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_process = CollectorRegistry()  # the real one may have been given to an app of another test
    monkeypatch.setattr(prometheus_module, "REGISTRY", of_process)
    assert exposed(app).registry is of_process
    other = App("memory://")
    assert exposed(other).registry is not of_process
    await other.close()


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "headrace.observability.prometheus")
    with pytest.raises(ConfigurationError, match=r"headrace\[prometheus\]"):
        importlib.import_module("headrace.observability.prometheus")


async def test_the_lag_of_outboxes_is_a_metric() -> None:
    from headrace.admin import OutboxInfo

    class WithOutboxes(Admin):
        async def outboxes(self) -> Sequence[Any]:
            return [OutboxInfo("orders/feed:bill", 3, 12.5), OutboxInfo("SQLite file shop.db", 0, 0.0)]

    gauges = made_gauges(WithOutboxes())
    await gauges.refresh()
    assert gauges.counts is not None
    assert gauges.counts.outboxes == {"orders/feed:bill": (3, 12.5), "SQLite file shop.db": (0, 0.0)}
    families = {family.name: family for family in _store_families(gauges.counts)}
    [lag, _] = families["headrace_outbox_lag_seconds"].samples
    assert (lag.labels, lag.value) == ({"outbox": "orders/feed:bill"}, 12.5)
    assert families["headrace_outbox_messages"].samples[0].value == 3
