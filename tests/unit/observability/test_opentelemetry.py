"""Spans of producers and consumers in one trace, and metrics: read from the SDK's in-memory exporters."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headrace import App, BatchResult, ConfigurationError, Event, Snooze, current_job
from headrace.observability.opentelemetry import instrument

from .conftest import Drain

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Telemetry:
    """What was exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def points(self, name: str) -> list[Any]:
        data: Any = self._reader.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def close(self) -> None:
        self.provider.shutdown()
        self.meters.shutdown()


@pytest.fixture
def telemetry(app: App) -> Any:
    telemetry = Telemetry()
    instrument(app, tracer_provider=telemetry.provider, meter_provider=telemetry.meters)
    yield telemetry
    telemetry.close()


@pytest.fixture
def span(telemetry: Telemetry) -> Callable[[str], Any]:
    return trace.get_tracer("test", tracer_provider=telemetry.provider).start_as_current_span


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return (
        child.parent is not None
        and child.parent.span_id == parent.context.span_id
        and child.context.trace_id == parent.context.trace_id
    )


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_the_run_of_a_job_is_a_child_of_its_enqueueing_which_is_one_of_the_caller(
    app: App, drain: Drain, telemetry: Telemetry, span: Callable[[str], Any]
) -> None:
    @app.task(name="add", queue="sums")
    async def add(a: int, b: int) -> int:
        with span("inner"):
            return a + b

    with span("request"):
        job = await add.enqueue(1, 2)
    await drain()
    request, inner = telemetry.one("request"), telemetry.one("inner")
    sent, run = telemetry.one("enqueue sums"), telemetry.one("process sums")
    assert is_child(sent, request)
    assert is_child(run, sent)
    assert is_child(inner, run)
    assert (sent.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert said(sent) == {
        "messaging.system": "headrace",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "sums",
        "messaging.message.id": job.id,
        "headrace.task": "add",
    }
    assert said(run) == {
        "messaging.system": "headrace",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "sums",
        "messaging.message.id": job.id,
        "headrace.task": "add",
        "headrace.attempt": 1,
    }
    assert run.status.status_code is StatusCode.UNSET


async def test_a_plain_function_in_a_thread_is_within_the_span_and_what_it_enqueues_goes_on_with_the_trace(
    app: App, drain: Drain, telemetry: Telemetry
) -> None:
    @app.task(name="second", queue="second")
    async def second() -> None: ...

    @app.task(name="first", queue="first")
    def first() -> None:
        app.sync.enqueue(second.call())

    await first.enqueue()
    await drain()
    assert is_child(telemetry.one("enqueue second"), telemetry.one("process first"))
    assert is_child(telemetry.one("process second"), telemetry.one("enqueue second"))


async def test_the_sync_bridge_sends_within_the_callers_span(
    telemetry: Telemetry, span: Callable[[str], Any], app: App
) -> None:
    @app.task(name="add")
    async def add() -> None: ...

    def plain() -> None:
        with span("plain"):
            app.sync.enqueue(add.call())

    await app.open()
    await asyncio.to_thread(plain)
    assert is_child(telemetry.one("enqueue default"), telemetry.one("plain"))


async def test_a_batch_of_calls_is_one_span_and_each_run_is_its_child(
    app: App, drain: Drain, telemetry: Telemetry
) -> None:
    @app.task(name="add")
    async def add(n: int) -> None: ...

    @app.task(name="other", queue="others")
    async def other() -> None: ...

    await app.enqueue_many([add.call(1), add.call(2).with_(headers={"mine": "yes"}), other.call()])
    await drain()
    sent = telemetry.one("enqueue")  # of several queues none is named
    assert said(sent)["messaging.batch.message_count"] == 3
    assert "messaging.destination.name" not in said(sent)
    runs = telemetry.named("process default") + telemetry.named("process others")
    assert len(runs) == 3
    assert all(is_child(run, sent) for run in runs)


async def test_headers_of_the_callers_own_stay_and_a_trace_in_them_goes_on(
    app: App, drain: Drain, telemetry: Telemetry
) -> None:
    seen: list[dict[str, str]] = []

    @app.task(name="add")
    async def add() -> None:
        seen.append(dict(current_job().headers))

    await add.with_(headers={"mine": "yes", "traceparent": TRACEPARENT}).enqueue()
    await drain()
    sent = telemetry.one("enqueue default")
    assert sent.parent is not None
    assert f"{sent.parent.trace_id:032x}-{sent.parent.span_id:016x}" in TRACEPARENT
    [headers] = seen
    assert headers["mine"] == "yes"
    assert f"{sent.context.span_id:016x}" in headers["traceparent"]


async def test_a_failure_is_an_error_of_its_span_and_each_attempt_has_one(
    app: App, drain: Drain, telemetry: Telemetry
) -> None:
    @app.task(name="fail")
    async def fail() -> None:
        raise ValueError("no")

    await fail.enqueue()
    await drain()
    runs = telemetry.named("process default")
    assert [said(run)["headrace.attempt"] for run in runs] == [1, 2]
    assert {run.status.status_code for run in runs} == {StatusCode.ERROR}
    assert {said(run)["error.type"] for run in runs} == {"ValueError"}
    assert [event.name for event in runs[0].events] == ["exception"]


async def test_what_is_put_off_is_no_error(app: App, drain: Drain, telemetry: Telemetry) -> None:
    @app.task(name="snooze")
    async def snooze() -> None:
        raise Snooze(3600)

    await snooze.enqueue()
    await drain()
    run = telemetry.one("process default")
    assert run.status.status_code is StatusCode.UNSET
    assert said(run)["headrace.outcome"] == "snoozed"
    assert run.events == ()


async def test_an_event_carries_its_trace_to_every_group_and_on_to_what_they_publish(
    app: App, drain: Drain, telemetry: Telemetry, span: Callable[[str], Any]
) -> None:
    orders, mails = app.topic("orders", int), app.topic("mails", int)
    seen: list[str | None] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: Event[int]) -> None:
        seen.append(event.traceparent)
        await mails.publish(event.payload)

    @orders.subscribe(group="audit", start="beginning")
    async def audit(order: int) -> None: ...

    with span("request"):
        id = await orders.publish(7)
    await drain()
    sent = telemetry.one("publish orders")
    assert is_child(sent, telemetry.one("request"))
    runs = {said(run)["messaging.consumer.group.name"]: run for run in telemetry.named("process orders")}
    assert runs.keys() == {"billing", "audit"}
    assert all(is_child(run, sent) for run in runs.values())
    assert said(runs["billing"])["messaging.message.id"] == id
    assert f"{sent.context.span_id:016x}" in (seen[0] or "")
    assert is_child(telemetry.one("publish mails"), runs["billing"])


async def test_a_job_that_an_event_starts_is_in_its_trace(
    app: App, drain: Drain, telemetry: Telemetry
) -> None:
    orders = app.topic("orders", int)

    @app.task(name="pack", queue="packing")
    async def pack(order: int) -> None: ...

    orders.feed(pack, start="beginning")
    await orders.publish(7)
    await drain()
    assert is_child(telemetry.one("enqueue packing"), telemetry.one("process orders"))
    assert is_child(telemetry.one("process packing"), telemetry.one("enqueue packing"))


async def test_the_run_of_a_batch_is_linked_to_all_its_events(
    app: App, drain: Drain, telemetry: Telemetry
) -> None:
    orders = app.topic("orders", int)

    @orders.subscribe(group="index", batch=10, start="beginning")
    async def index(batch: list[int]) -> BatchResult:
        return BatchResult()

    await orders.publish(1)
    await orders.publish_many([2, 3])
    await drain()
    run = telemetry.one("process orders")
    senders = {span.context.span_id for span in telemetry.named("publish orders")}
    assert len(senders) == 2
    assert {link.context.span_id for link in run.links} == senders
    assert len(run.links) == 3
    assert run.parent is None
    assert said(run)["messaging.batch.message_count"] == 3


async def test_what_cannot_be_sent_is_an_error_of_its_span(app: App, telemetry: Telemetry) -> None:
    @app.task(name="add")
    async def add(payload: bytes) -> None: ...

    with pytest.raises(Exception, match="bytes"):
        await add.enqueue(b"x" * 2_000_000)
    sent = telemetry.one("enqueue default")
    assert sent.status.status_code is StatusCode.ERROR
    assert said(sent)["error.type"] == "headrace.PayloadTooLarge"


async def test_runs_are_measured_and_counted(app: App, drain: Drain, telemetry: Telemetry) -> None:
    @app.task(name="add")
    async def add(n: int) -> None:
        if n == 2:
            raise ValueError("no")

    await app.enqueue_many([add.call(1), add.call(2)])
    await drain()
    points = {
        point.attributes.get("error.type"): point for point in telemetry.points("messaging.process.duration")
    }
    assert {name: point.count for name, point in points.items()} == {None: 1, "ValueError": 2}
    assert [point.value for point in telemetry.points("messaging.client.sent.messages")] == [2]
    assert [point.value for point in telemetry.points("messaging.client.consumed.messages")] == [3]


async def test_an_app_is_instrumented_once(app: App, drain: Drain, telemetry: Telemetry) -> None:
    instrument(app, tracer_provider=telemetry.provider)

    @app.task(name="add")
    async def add() -> None: ...

    await add.enqueue()
    await drain()
    assert len(telemetry.named("enqueue default")) == len(telemetry.named("process default")) == 1
    with pytest.raises(ConfigurationError, match="already"):
        app.use_sending(lambda sending: pytest.fail("never"))


async def test_a_job_without_a_trace_begins_one_also_where_the_worker_was_started_within_a_span(
    telemetry: Telemetry, span: Callable[[str], Any]
) -> None:
    sender, runner = App("memory://traces"), App("memory://traces")
    instrument(runner, tracer_provider=telemetry.provider)

    async def add() -> None: ...

    await sender.task(name="add")(add).enqueue()
    runner.task(name="add")(add)
    with span("startup"):
        await runner.worker().run(burst=True)
    run = telemetry.one("process default")
    assert run.parent is None
    assert run.context.trace_id != telemetry.one("startup").context.trace_id
    await sender.close()
    await runner.close()


async def test_without_it_nothing_is_added_to_what_is_sent(app: App, drain: Drain) -> None:
    seen: list[dict[str, str]] = []

    @app.task(name="add")
    async def add() -> None:
        seen.append(dict(current_job().headers))

    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False))):
        await add.enqueue()
    await drain()
    assert seen == [{}]


async def test_spans_end_in_the_context_in_which_they_began(
    app: App, drain: Drain, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="wait")
    async def wait() -> None:
        await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR, logger="opentelemetry"):
        await app.enqueue_many([wait.call() for _ in range(20)])
        await drain()
    assert len(telemetry.named("process default")) == 20
    assert caplog.records == []


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "headrace.observability.opentelemetry")
    with pytest.raises(ConfigurationError, match=r"headrace\[otel\]"):
        importlib.import_module("headrace.observability.opentelemetry")
