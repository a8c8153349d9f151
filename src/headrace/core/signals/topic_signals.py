"""Signals about topics and their groups."""

from __future__ import annotations

from .signal import Signal


class EventPublished(Signal, frozen=True):
    """An event was accepted by the store.

    - `id`: the id of the event
    - `topic`: its topic
    - `kind`: its kind
    - `duplicate`: it had been accepted before, under this idempotency key
    """

    id: str
    topic: str
    kind: str
    duplicate: bool = False


class TopicHeld(Signal, frozen=True):
    """Events are kept beyond the topic's retention, because this group has not drawn them yet."""

    topic: str
    group: str


class GroupPassed(Signal, frozen=True):
    """No member of this group was seen for so long that the topic no longer keeps events for it."""

    topic: str
    group: str


class OrderDisputed(Signal, frozen=True):
    """Members of this group disagree about `ordered`. It is ordered while one that wants order is seen."""

    topic: str
    group: str


class GroupStalled(Signal, frozen=True):
    """So many keys of this ordered group are stuck that it draws no more events of other keys."""

    topic: str
    group: str
