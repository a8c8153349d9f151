"""`app.sync`: the verbs of the app, of its jobs and of its topics, waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from headrace.admin import Admin
from headrace.core.duration import Duration
from headrace.core.errors import ConfigurationError
from headrace.core.info import JobInfo
from headrace.core.record import JobStatus
from headrace.events.event import Outcome
from headrace.events.face import Events
from headrace.events.topic import Topic
from headrace.jobs.face import Jobs
from headrace.jobs.job import Job
from headrace.jobs.schedules import Schedules
from headrace.jobs.task import Call

from .admin import SyncAdmin
from .portal import Portal
from .schedules import SyncSchedules

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _PublishesMany(Protocol[P]):
    """A topic; by its method alone a checker knows the type of its events, whatever the events look like."""

    async def publish_many(self, *events: P.args, **named: P.kwargs) -> list[Outcome]: ...


class Sync:
    """`app.sync`: for Django, Flask and scripts."""

    def __init__(
        self, portal: Portal, jobs: Jobs, events: Events, admin: Admin, schedules: Schedules
    ) -> None:
        self._portal = portal
        self._jobs = jobs
        self._events = events
        self.admin: SyncAdmin = SyncAdmin(portal, admin)
        self.schedules: SyncSchedules = SyncSchedules(portal, schedules)

    def enqueue(self, call: Call[R]) -> Job[R]:
        """Store one job: `app.sync.enqueue(add.call(2, 3))`."""
        return self._portal.run(self._jobs.enqueue, call)

    def enqueue_many(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        return self._portal.run(self._jobs.enqueue_many, calls)

    def publish(
        self,
        topic: Topic[T] | str,
        event: T,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        kind: str | None = None,
        source: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        expires: Duration | None = None,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
        schema_version: int | None = None,
    ) -> str:
        """Store one event, and its id: `app.sync.publish(orders, OrderPlaced(7))`. A topic that the app has
        declared may be named instead."""
        return self._portal.run(
            self._topic(topic).publish,
            event,
            key=key,
            headers=headers,
            kind=kind,
            source=source,
            delay=delay,
            at=at,
            expires=expires,
            idempotency_key=idempotency_key,
            correlation_id=correlation_id,
            schema_version=schema_version,
        )

    @overload
    def publish_many(self, topic: _PublishesMany[P], *events: P.args, **named: P.kwargs) -> list[Outcome]: ...
    @overload
    def publish_many(self, topic: str, events: Iterable[Any]) -> list[Outcome]: ...

    def publish_many(self, topic: Any, *events: Any, **named: Any) -> list[Outcome]:
        """Store many events; one outcome each, in order."""
        return self._portal.run(self._topic(topic).publish_many, *events, **named)

    def result(self, job: Job[R], timeout: Duration | None = None) -> R:
        return self._portal.run(job.result, timeout)

    def wait(self, job: Job[Any], timeout: Duration | None = None) -> JobStatus:
        return self._portal.run(job.wait, timeout)

    def status(self, job: Job[Any]) -> JobStatus:
        return self._portal.run(job.status)

    def info(self, job: Job[Any]) -> JobInfo:
        return self._portal.run(job.info)

    def cancel(self, job: Job[Any]) -> bool:
        return self._portal.run(job.cancel)

    def close(self) -> None:
        """Close the app, and end the portal's thread if there is one."""
        self._portal.close()

    def _topic(self, topic: Topic[Any] | str) -> Topic[Any]:
        if isinstance(topic, Topic):
            return topic
        found = self._events.topics.get(topic)
        if found is None:
            raise ConfigurationError(f"the app has declared no topic {topic!r}: app.topic(...) does so")
        return found
