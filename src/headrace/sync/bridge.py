"""The part of `app.sync` that is written by hand: its parts, topics by name, `publish_many` and `close`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ParamSpec, Protocol, overload

from headrace.admin import Admin
from headrace.core.errors import ConfigurationError
from headrace.events.event import PublishOutcome
from headrace.events.events import Events
from headrace.events.topic import Topic
from headrace.jobs.jobs import Jobs
from headrace.jobs.schedules import Schedules

from .admin import SyncAdmin
from .portal import Portal
from .schedules import SyncSchedules

P = ParamSpec("P")


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

    @overload
    def publish_many(
        self, topic: PublishesMany[P], *events: P.args, **named: P.kwargs
    ) -> list[PublishOutcome]: ...
    @overload
    def publish_many(self, topic: str, events: Iterable[Any]) -> list[PublishOutcome]: ...

    def publish_many(self, topic: Any, *events: Any, **named: Any) -> list[PublishOutcome]:
        """Store many events: `app.sync.publish_many(orders, [OrderPlaced(7), OrderPlaced(8)])`.

        The outcomes are in the order of the events. `topic` may be the name of a topic that the app has
        declared.
        """
        return self._portal.run(self._topic(topic).publish_many, *events, **named)

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
