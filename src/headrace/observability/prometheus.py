"""Metrics for Prometheus: counters and histograms from signals, and gauges that a scrape asks for.

    from headrace.observability.prometheus import instrument

    metrics = instrument(app)
    body, content_type = await metrics.render()

Every metric is listed in docs/guides/observability.md. All labels are bounded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from headrace.core import signals
from headrace.core.errors import ConfigurationError
from headrace.core.runtime.daemon_thread import in_daemon_thread

from .gauges import MOST, STATES, BoundedLabel, CountsSource, Gauges, StoreCounts

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.metrics_core import Metric

    from .series import Counter, Histogram
except ModuleNotFoundError as error:
    if error.name != "prometheus_client":
        raise
    raise ConfigurationError(
        "metrics for Prometheus need prometheus_client: pip install 'headrace[prometheus]'"
    ) from error

JOB = ("task", "queue")
EVENT = ("topic", "group")

L = TypeVar("L", bound=Callable[..., Any])
SignalDecorator = Callable[[type[signals.Signal]], Callable[[Any], Any]]


class ObservedApp(Protocol):
    """The part of an app that metrics need."""

    @property
    def admin(self) -> CountsSource: ...
    def on(self, signal: type[signals.Signal]) -> Callable[[L], L]: ...


class ObservedOptions(Protocol):
    @property
    def concurrency(self) -> int: ...


class ObservedWorker(Protocol):
    """The part of a worker that metrics need."""

    @property
    def options(self) -> ObservedOptions: ...
    @property
    def running(self) -> int: ...
    @property
    def last_poll(self) -> float: ...
    @property
    def renewals(self) -> int: ...


def instrument(
    app: ObservedApp, *, registry: CollectorRegistry | None = None, most_tasks: int = MOST
) -> Metrics:
    """Count and measure what this process does for `app`. A second call gives the same metrics.

    Without `registry` they have a registry of their own. `prometheus_client.REGISTRY` puts them beside the
    metrics of your own code. After `most_tasks` task names all others are counted as `other`.
    """
    found = _instrumented.get(app)
    if found is None:
        found = _instrumented[app] = Metrics(app, registry or CollectorRegistry(), most_tasks=most_tasks)
    elif registry is not None and registry is not found.registry:
        raise ConfigurationError("this app is instrumented already, with another registry")
    return found


def exposed(app: ObservedApp) -> Metrics:
    """The metrics that `/metrics` serves. An app without metrics is instrumented now, in the registry of the
    process, beside the metrics of the user's own code. A second app of the process gets its own registry."""
    found = _instrumented.get(app)
    if found is not None:
        return found
    try:
        return instrument(app, registry=REGISTRY)
    except ConfigurationError:
        return instrument(app)


class Metrics:
    """Made by `instrument`."""

    def __init__(self, app: ObservedApp, registry: CollectorRegistry, *, most_tasks: int = MOST) -> None:
        self.registry = registry
        self._workers: list[ObservedWorker] = []
        self._task = BoundedLabel(most_tasks)
        self._queue, self._topic, self._group = BoundedLabel(), BoundedLabel(), BoundedLabel()
        self._series: list[Counter | Histogram] = []
        self._gauges = Gauges(
            app.admin, queue_label=self._queue, topic_label=self._topic, group_label=self._group
        )
        self._make()
        try:
            registry.register(self)
        except ValueError as error:
            raise ConfigurationError(
                "this registry holds the metrics of another app already: give each app a registry of its own"
            ) from error
        self._listen(app.on)

    def watch(self, worker: ObservedWorker) -> None:
        """Show the slots, the last poll and the renewals of this worker, too."""
        self._workers.append(worker)

    async def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition of the whole registry, and its content type, as the scraper's `Accept` asks."""
        await self._gauges.refresh()
        encode, content_type = choose_encoder(accept)
        # In a thread: thousands of lines take long, and the worker needs its event loop.
        return await in_daemon_thread(encode, self.registry), content_type

    async def refresh(self) -> None:
        """Ask the store for its counts, at most every few seconds. Call it before you render the registry."""
        await self._gauges.refresh()

    def describe(self) -> Iterable[Metric]:
        """For the registry, which checks that the names are new."""
        return [series.family() for series in self._series]

    def collect(self) -> Iterable[Metric]:
        """For the registry: the counters and histograms, and the last gauges."""
        for series in self._series:
            yield series.family()
        up = self._gauges.up
        if up is not None:
            yield GaugeMetricFamily("headrace_store_up", "Whether the store answered the last scrape.", up)
        counts = self._gauges.counts
        if counts is not None:
            yield from _store_families(counts)
        if self._workers:
            yield from _worker_families(self._workers)

    # --- counters and histograms ---------------------------------------------------------------------------

    def _make(self) -> None:
        counter, histogram = self._counter, self._histogram
        self._enqueued = counter("jobs_enqueued", "Jobs sent by this process.", *JOB, "outcome")
        self._ended = counter("jobs_ended", "Jobs that have ended, by outcome.", *JOB, "outcome")
        self._retries = counter("job_retries", "Jobs that will run again, by reason.", *JOB, "outcome")
        self._recovered = counter("jobs_recovered", "Jobs recovered from crashed workers.", *JOB)
        self._lost = counter("leases_lost", "Leases that this worker lost.", "queue")
        self._dropped = counter("dead_letters_dropped", "Dead letters that a queue dropped.", "queue")
        self._overdue = counter("threads_overdue", "Threads that went past their job's timeout.", *JOB)
        self._run_seconds = histogram("job_run_seconds", "Time in a handler.", *JOB, "outcome")
        self._wait_seconds = histogram("job_wait_seconds", "From enqueueing to each start.", *JOB)
        self._late_seconds = histogram("job_lateness_seconds", "From when it could run to its start.", *JOB)
        self._published = counter("events_published", "Events sent by this process.", "topic", "outcome")
        self._events_ended = counter("events_ended", "Events that have ended, by outcome.", *EVENT, "outcome")
        self._event_retries = counter("event_retries", "Events to be handled again.", *EVENT, "outcome")
        self._events_recovered = counter("events_recovered", "Events recovered from crashed workers.", *EVENT)
        self._event_seconds = histogram("event_run_seconds", "Time in a handler.", *EVENT, "outcome")
        self._event_wait = histogram("event_wait_seconds", "From publishing to the run that did it.", *EVENT)
        self._store_errors = counter("store_errors", "Failures of the store, by service.", "service")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        made = Counter(f"headrace_{name}", text, *labels)
        self._series.append(made)
        return made

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        made = Histogram(f"headrace_{name}", text, *labels)
        self._series.append(made)
        return made

    def _listen(self, on: SignalDecorator) -> None:
        on(signals.JobEnqueued)(self._on_enqueued)
        on(signals.JobStarted)(self._on_started)
        on(signals.JobSucceeded)(self._on_succeeded)
        on(signals.JobFailed)(self._on_failed)
        on(signals.JobRetrying)(self._on_retrying)
        on(signals.JobDied)(lambda signal: self._ended.add((*self._job(signal), "dead")))
        on(signals.JobCancelled)(lambda signal: self._ended.add((*self._job(signal), "cancelled")))
        on(signals.JobExpired)(lambda signal: self._ended.add((*self._job(signal), "expired")))
        on(signals.JobRecovered)(lambda signal: self._recovered.add(self._job(signal)))
        on(signals.ThreadOverdue)(lambda signal: self._overdue.add(self._job(signal)))
        on(signals.DeadDropped)(self._on_dropped)
        on(signals.LeaseLost)(lambda signal: self._lost.add((self._queue(signal.queue),)))
        on(signals.EventPublished)(self._on_published)
        on(signals.EventHandled)(self._on_handled)
        on(signals.EventFailed)(self._on_event_failed)
        on(signals.EventRetrying)(self._on_event_retrying)
        on(signals.EventDied)(lambda signal: self._events_ended.add((*self._event(signal), "dead")))
        on(signals.EventExpired)(lambda signal: self._events_ended.add((*self._event(signal), "expired")))
        on(signals.EventRecovered)(lambda signal: self._events_recovered.add(self._event(signal)))
        on(signals.BackendError)(lambda signal: self._store_errors.add((signal.service,)))

    def _job(self, signal: signals.JobSignal) -> tuple[str, str]:
        return self._task(signal.task), self._queue(signal.queue)

    def _event(self, signal: signals.EventSignal) -> tuple[str, str]:
        return self._topic(signal.topic), self._group(signal.group)

    def _on_enqueued(self, signal: signals.JobEnqueued) -> None:
        self._enqueued.add((*self._job(signal), "duplicate" if signal.duplicate else "accepted"))

    def _on_dropped(self, signal: signals.DeadDropped) -> None:
        self._dropped.add((self._queue(signal.queue),), signal.count)

    def _on_started(self, signal: signals.JobStarted) -> None:
        job = self._job(signal)
        self._wait_seconds.observe(job, signal.waited)
        if signal.late is not None:
            self._late_seconds.observe(job, signal.late)

    def _on_succeeded(self, signal: signals.JobSucceeded) -> None:
        succeeded = (*self._job(signal), "succeeded")
        self._run_seconds.observe(succeeded, signal.seconds)
        self._ended.add(succeeded)

    def _on_failed(self, signal: signals.JobFailed) -> None:
        self._run_seconds.observe((*self._job(signal), "failed"), signal.seconds)

    def _on_retrying(self, signal: signals.JobRetrying) -> None:
        self._retries.add((*self._job(signal), _why(signal.why)))

    def _on_published(self, signal: signals.EventPublished) -> None:
        outcome = "duplicate" if signal.duplicate else "accepted"
        self._published.add((self._topic(signal.topic), outcome))

    def _on_handled(self, signal: signals.EventHandled) -> None:
        event = self._event(signal)
        self._event_wait.observe(event, signal.waited)
        self._event_seconds.observe((*event, "handled"), signal.seconds)
        self._events_ended.add((*event, "handled"))

    def _on_event_failed(self, signal: signals.EventFailed) -> None:
        self._event_seconds.observe((*self._event(signal), "failed"), signal.seconds)

    def _on_event_retrying(self, signal: signals.EventRetrying) -> None:
        self._event_retries.add((*self._event(signal), _why(signal.why)))


_instrumented: weakref.WeakKeyDictionary[ObservedApp, Metrics] = weakref.WeakKeyDictionary()


def _why(why: str) -> str:
    return "snoozed" if why == "snoozed" else "failed"


def _store_families(counts: StoreCounts) -> Iterable[Metric]:
    yield from _queue_families(counts)
    yield from _topic_families(counts)
    yield from _outbox_families(counts)
    yield _gauge("workers", "Workers seen within the last minute.", (), [((), counts.workers)])


def _queue_families(counts: StoreCounts) -> Iterable[Metric]:
    queues = counts.queues.items()
    yield _gauge(
        "queue_jobs",
        "Jobs in the store, by state.",
        ("queue", "state"),
        (((queue, state), load.counts.get(state, 0)) for queue, load in queues for state in STATES),
    )
    yield _gauge(
        "queue_oldest_seconds",
        "For how long the oldest waiting job of a queue has been ready.",
        ("queue",),
        (((queue,), load.age) for queue, load in queues),
    )
    yield _gauge(
        "queue_paused",
        "1: the queue is paused.",
        ("queue",),
        (((queue,), load.paused) for queue, load in queues),
    )


def _topic_families(counts: StoreCounts) -> Iterable[Metric]:
    groups = counts.groups.items()
    yield _gauge(
        "topic_events",
        "Events that a topic holds.",
        ("topic",),
        (((topic,), length) for topic, length in counts.topics.items()),
    )
    yield _gauge(
        "group_events",
        "Events of a group, by state.",
        (*EVENT, "state"),
        (((*group, state), load.counts.get(state, 0)) for group, load in groups for state in STATES),
    )
    yield _gauge(
        "group_lag_events",
        "Events that the group has not begun to handle.",
        EVENT,
        ((group, load.lag) for group, load in groups),
    )
    yield _gauge(
        "group_oldest_seconds",
        "For how long the oldest of these events has waited.",
        EVENT,
        ((group, load.age) for group, load in groups),
    )


def _outbox_families(counts: StoreCounts) -> Iterable[Metric]:
    outboxes = counts.outboxes.items()
    if not outboxes:
        return
    yield _gauge(
        "outbox_messages",
        "Messages that wait in an outbox to be relayed.",
        ("outbox",),
        (((outbox,), waiting) for outbox, (waiting, _) in outboxes),
    )
    yield _gauge(
        "outbox_lag_seconds",
        "For how long the first of them has waited.",
        ("outbox",),
        (((outbox,), lag) for outbox, (_, lag) in outboxes),
    )


def _worker_families(workers: list[ObservedWorker]) -> Iterable[Metric]:
    running = sum(worker.running for worker in workers)
    slots = sum(worker.options.concurrency for worker in workers)
    yield _gauge("worker_running", "Jobs and events in handlers of this process.", (), [((), running)])
    yield _gauge("worker_slots", "Jobs and events that may be in handlers at once.", (), [((), slots)])
    yield _gauge(
        "worker_last_poll_timestamp_seconds",
        "When this process last asked the store for work and got an answer.",
        (),
        [((), max(worker.last_poll for worker in workers))],
    )
    renewals = sum(worker.renewals for worker in workers)
    yield CounterMetricFamily("headrace_lease_renewals", "Leases renewed by this process.", renewals)


def _gauge(
    name: str, text: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    family = GaugeMetricFamily(f"headrace_{name}", text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family
