"""The part of `app.sync` that is written by hand: its parts, what may be done in a transaction, and `close`.

The statements of a transaction run on the calling thread, to which the user's connection belongs. Everything
else goes through the portal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, Unpack, overload

from msgspec import UNSET

from headrace.admin import Admin
from headrace.core.errors import ConfigurationError
from headrace.core.values.durations import Duration
from headrace.core.values.shown_options import shows_options
from headrace.engine.app_loop.portal import Portal
from headrace.engine.transactions.writer import run_here
from headrace.events.encoder import EventDraft
from headrace.events.event import PublishOutcome
from headrace.events.events import Events
from headrace.events.options import EventOptions
from headrace.events.topic import Topic
from headrace.jobs.handles.job import Job
from headrace.jobs.handles.results import results_of
from headrace.jobs.jobs import Jobs
from headrace.jobs.scheduling.schedules import Schedules
from headrace.jobs.sending import transaction_of, within
from headrace.jobs.task import Call

from .admin import SyncAdmin
from .schedules import SyncSchedules

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class PublishesMany(Protocol[P]):
    """A topic, for type checkers. They take the type of the events from this method, also in a list that
    mixes payloads and drafts."""

    async def publish_many(self, *events: P.args, **named: P.kwargs) -> list[PublishOutcome]: ...


class Bridge:
    """Leads from plain code to the coroutines of an app."""

    def __init__(
        self, portal: Portal, jobs: Jobs, events: Events, admin: Admin, schedules: Schedules
    ) -> None:
        self._portal = portal
        self._jobs = jobs
        self._events = events
        self.admin: SyncAdmin = SyncAdmin(portal, admin)
        self.schedules: SyncSchedules = SyncSchedules(portal, schedules)

    def enqueue(self, call: Call[R], *, transaction: object = None) -> Job[R]:
        """Store one job: `app.sync.enqueue(add.call(2, 3))`.

        When this returns, the job is stored, and a worker will run it. With `transaction`, a connection of
        yours, the job exists if, and only if, the open transaction of this connection commits.
        """
        return self._jobs.enqueue_sync(within(call, transaction))

    @overload
    def enqueue_many(self, calls: Sequence[Call[R]], *, transaction: object = ...) -> list[Job[R]]: ...
    @overload
    def enqueue_many(self, calls: Sequence[Call[Any]], *, transaction: object = ...) -> list[Job[Any]]: ...

    def enqueue_many(self, calls: Sequence[Call[Any]], *, transaction: object = None) -> list[Job[Any]]:
        """Store many jobs of any tasks, a few hundred with each write.

        The jobs are in the order of the calls. When the arguments of one call are refused, nothing is stored.
        `transaction` is as in `enqueue`.
        """
        calls = [within(call, transaction) for call in calls]
        if transaction_of(calls) is UNSET:
            return self._portal.run(self._jobs.enqueue_many, calls)
        return run_here(self._jobs.enqueue_many(calls))

    @overload
    def results(
        self, jobs: Iterable[Job[R]], timeout: Duration | None = ..., return_exceptions: Literal[False] = ...
    ) -> list[R]: ...
    @overload
    def results(
        self, jobs: Iterable[Job[R]], timeout: Duration | None = ..., *, return_exceptions: Literal[True]
    ) -> list[R | BaseException]: ...
    @overload
    def results(
        self, jobs: Iterable[Job[R]], timeout: Duration | None, return_exceptions: Literal[True]
    ) -> list[R | BaseException]: ...

    def results(
        self, jobs: Iterable[Job[Any]], timeout: Duration | None = None, return_exceptions: bool = False
    ) -> list[Any]:
        """Wait for the results of many jobs, and return them in the order of the jobs; see `App.results`."""
        return self._portal.run(results_of, jobs, timeout, return_exceptions)

    @shows_options(EventOptions, EventDraft)
    def publish(
        self, topic: Topic[T] | str, event: T, *, transaction: object = None, **options: Unpack[EventOptions]
    ) -> str:
        """Store one event for every group, and return its id: `app.sync.publish(orders, OrderPlaced(7),
        key="customer-3")`.

        When this returns, the event will be delivered. Events with the same `idempotency_key` within the
        window of the topic are stored once: the id is then the id of the first. `EventOptions` lists the
        options. With `transaction`, a connection of yours, the event is published if, and only if, the open
        transaction of this connection commits.

        `topic` may be the name of a topic that the app has declared.
        """
        return self._topic(topic).sync.publish(event, transaction=transaction, **options)

    @overload
    def publish_many(
        self, topic: PublishesMany[P], *events: P.args, **named: P.kwargs
    ) -> list[PublishOutcome]: ...
    @overload
    def publish_many(
        self, topic: str, events: Iterable[Any], *, transaction: object = None
    ) -> list[PublishOutcome]: ...

    def publish_many(self, topic: Any, *events: Any, **named: Any) -> list[PublishOutcome]:
        """Store many events: `app.sync.publish_many(orders, [OrderPlaced(7), OrderPlaced(8)])`.

        The outcomes are in the order of the events. `topic` may be the name of a topic that the app has
        declared. `transaction` is as in `publish`.
        """
        return self._topic(topic).sync.publish_many(*events, **named)

    def close(self) -> None:
        """Close the app, and end its thread if there is one."""
        self._portal.close()

    def _topic(self, topic: Topic[Any] | str) -> Topic[Any]:
        if isinstance(topic, Topic):
            return topic
        found = self._events.topics.get(topic)
        if found is None:
            raise ConfigurationError(f"the app has declared no topic {topic!r}: use app.topic(...)")
        return found
