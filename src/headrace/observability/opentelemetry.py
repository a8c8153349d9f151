"""Traces and metrics by OpenTelemetry, after its semantic conventions for messaging.

    from headrace.observability.opentelemetry import instrument

    instrument(app)

Each enqueue and each publish has a span of kind PRODUCER. Its context travels in the header `traceparent` (of
an event: in its envelope). Each run has a span of kind CONSUMER, a child of that span. The run of a batch is
linked to the spans of all its events.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.errors import ConfigurationError
from headrace.core.messages.claim import Claim
from headrace.core.messages.directives import RetryLater, Snooze
from headrace.core.messages.event_envelope import decode_event
from headrace.core.messages.sending import TRACEPARENT, Sending, SendingWrapper
from headrace.core.runtime.current_run import RunUnderWay

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("opentelemetry"):
        raise
    raise ConfigurationError("traces need the API of OpenTelemetry: pip install 'headrace[otel]'") from error

SYSTEM = "headrace"

#: A trace always travels in the headers of the W3C, whatever propagator this process uses elsewhere.
_travelling = TraceContextTextMapPropagator()


class TracedRun(RunUnderWay, Protocol):
    """The part of a run that traces need."""

    claim: Claim

    @property
    def topic(self) -> str | None: ...
    @property
    def group(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


RunT = TypeVar("RunT", bound=TracedRun)

#: The attributes of a span or a measurement.
Attributes = dict[str, str | int]


class TracedApp(Protocol[RunT]):
    """The part of an app that traces need."""

    def use(
        self, middleware: Callable[[RunT, Callable[[RunT], Awaitable[object]]], Awaitable[object]]
    ) -> object: ...
    def use_sending(self, wrapper: SendingWrapper) -> None: ...


def instrument(
    app: TracedApp[RunT],
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> None:
    """Trace what `app` sends and runs. Without arguments it uses the global providers.

    Call it before the app's workers start. A second call changes nothing.
    """
    if app in _instrumented:
        return
    traces = Traces(
        trace.get_tracer("headrace", tracer_provider=tracer_provider),
        metrics.get_meter("headrace", meter_provider=meter_provider),
    )
    app.use_sending(traces.sending)
    app.use(traces.process)
    _instrumented.add(app)


class Traces:
    """Made by `instrument`."""

    def __init__(self, tracer: trace.Tracer, meter: metrics.Meter) -> None:
        self._tracer = tracer
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Jobs and events sent."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Jobs and events given to a handler."
        )
        self._seconds = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Time in a handler.",
            explicit_bucket_boundaries_advisory=[0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 3600],
        )

    @contextmanager
    def sending(self, sending: Sending) -> Iterator[None]:
        """A span around sending. It becomes the parent of the consumer's span."""
        shared: Attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "enqueue" if sending.kind == "job" else "publish",
            "messaging.operation.type": "send",
            **_named("messaging.destination.name", sending.destination),
        }
        attributes = {**shared, **_sending_attributes(sending)}
        with self._tracer.start_as_current_span(
            _span_name(shared),
            context=_parent_of(sending),
            kind=SpanKind.PRODUCER,
            attributes=attributes,
        ) as span:
            _travelling.inject(sending.carried)
            try:
                yield
            except Exception as error:
                span.set_attribute("error.type", _type_name(error))
                self._sent.add(sending.count, {**shared, "error.type": _type_name(error)})
                raise
            if sending.count == 1 and sending.ids:
                span.set_attribute("messaging.message.id", sending.ids[0])
            self._sent.add(sending.count, shared)

    async def process(self, run: RunT, call_next: Callable[[RunT], Awaitable[object]]) -> object:
        """The middleware around each run."""
        shared: Attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "process",
            "messaging.destination.name": run.topic or run.queue,
            **_named("messaging.consumer.group.name", run.group or ""),
        }
        claims: Sequence[Claim] = getattr(run.claim, "claims", ()) or (run.claim,)
        with self._tracer.start_as_current_span(
            _span_name(shared),
            context=_context_of(_headers_of(run)) if len(claims) == 1 else Context(),
            kind=SpanKind.CONSUMER,
            attributes={**shared, **_run_attributes(run, len(claims))},
            links=_links(claims) if len(claims) > 1 else None,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            self._consumed.add(len(claims), shared)
            began = time.perf_counter()
            try:
                return await call_next(run)
            except BaseException as error:
                shared |= _record_failure(span, error)
                raise
            finally:
                self._seconds.record(time.perf_counter() - began, shared)


_instrumented: weakref.WeakSet[object] = weakref.WeakSet()


def _span_name(shared: Mapping[str, str | int]) -> str:
    return f"{shared['messaging.operation.name']} {shared.get('messaging.destination.name', '')}".rstrip()


def _named(name: str, value: str) -> Attributes:
    return {name: value} if value else {}


def _sending_attributes(sending: Sending) -> Attributes:
    attributes = _named("headrace.task" if sending.kind == "job" else "headrace.kind", sending.name)
    if sending.count > 1:
        attributes["messaging.batch.message_count"] = sending.count
    return attributes


def _run_attributes(run: TracedRun, count: int) -> Attributes:
    attributes: Attributes = {
        "messaging.operation.type": "process",
        "headrace.task" if run.topic is None else "headrace.kind": run.task,
        "headrace.attempt": run.attempt,
    }
    if count > 1:
        return {**attributes, "messaging.batch.message_count": count}
    return {**attributes, "messaging.message.id": run.id}


def _parent_of(sending: Sending) -> Context | None:
    """The current span, or else the trace that the sender gave in a header."""
    if trace.get_current_span().get_span_context().is_valid or TRACEPARENT not in sending.headers:
        return None
    return _context_of(sending.headers)


def _headers_of(run: TracedRun) -> Mapping[str, str]:
    return run.headers if run.topic is None else _event_headers(run.claim)


def _event_headers(claim: Claim) -> Mapping[str, str]:
    try:
        return {TRACEPARENT: decode_event(claim.body).traceparent}
    except DECODE_ERRORS:
        return {}


def _context_of(headers: Mapping[str, str]) -> Context:
    # An empty context and not the current one: a slot may have started within a span of the user.
    return _travelling.extract(headers, Context())


def _links(claims: Sequence[Claim]) -> list[Link]:
    contexts = (
        trace.get_current_span(_context_of(_event_headers(claim))).get_span_context() for claim in claims
    )
    return [Link(context) for context in contexts if context.is_valid]


def _record_failure(span: Span, error: BaseException) -> dict[str, str]:
    """Mark the span of a run that failed. A snoozed, deferred or interrupted run did not fail."""
    if isinstance(error, Snooze):
        span.set_attribute("headrace.outcome", "snoozed")
        return {}
    if isinstance(error, RetryLater):
        span.set_attribute("headrace.outcome", "retry")
        return {}
    if isinstance(error, asyncio.CancelledError):
        span.set_attribute("headrace.outcome", "interrupted")
        return {}
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    span.set_attribute("error.type", _type_name(error))
    return {"error.type": _type_name(error)}


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
