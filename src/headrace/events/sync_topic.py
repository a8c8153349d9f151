"""`topic.sync`: publishes events from plain code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar, Unpack

from headrace.core.topics.start import StartAt
from headrace.core.values.shown_options import shows_options
from headrace.engine.app_loop.portal import Portal
from headrace.engine.transactions.writer import run_here

from .encoder import EventDraft
from .event import PublishOutcome
from .options import EventOptions

if TYPE_CHECKING:
    from .topic import Topic

T = TypeVar("T")


class SyncTopic(Generic[T]):
    """`topic.sync`: the methods of a topic. Each waits for its answer.

    The statements of a transaction run on the calling thread, to which the user's connection belongs.
    """

    __slots__ = ("_portal", "_topic")

    def __init__(self, portal: Portal, topic: Topic[T]) -> None:
        self._portal = portal
        self._topic = topic

    @shows_options(EventOptions, EventDraft)
    def publish(self, event: T, *, transaction: object = None, **options: Unpack[EventOptions]) -> str:
        """Store one event for every group, and return its id; see `Topic.publish`."""
        if transaction is None:
            return self._portal.run(self._topic.publish, event, **options)
        return run_here(self._topic.publish(event, transaction=transaction, **options))

    def publish_many(
        self, events: Iterable[T | EventDraft[T]], *, transaction: object = None
    ) -> list[PublishOutcome]:
        """Store many events; see `Topic.publish_many`."""
        if transaction is None:
            return self._portal.run(self._topic.publish_many, events)
        return run_here(self._topic.publish_many(events, transaction=transaction))

    def replay(self, *, group: str, since: StartAt = "beginning") -> None:
        """Let a group read the log again from `since`; see `Topic.replay`."""
        self._portal.run(self._topic.replay, group=group, since=since)
