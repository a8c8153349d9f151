"""A group's handler for the events of a topic, with everything decided beforehand."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final, Literal

import msgspec

from headrace.core.messages.message import Stream, group_stream
from headrace.core.messages.retry import RetryFunction, RetryPolicy
from headrace.core.topics.topic import Start, TopicRules

from .registry import Handler

Acknowledgement = Literal["success", "receipt", "manual"]

#: A fan-out has this prefix and a number in place of a group name. No group may have such a name, and no
#: store ever gets it.
FAN_OUT_MARK: Final = "#"


def group_name(stream: Stream) -> str:
    """The name of the group, as users know it; empty for a fan-out."""
    return "" if stream.group.startswith(FAN_OUT_MARK) else stream.group


class SubscriptionOptions(msgspec.Struct, frozen=True):
    """The checked options of a subscription."""

    start: Start
    max_in_flight: int
    group: str | None = None  # None: a fan-out
    ack: Acknowledgement = "success"
    retry: RetryPolicy | RetryFunction | None = None
    fan_out: bool = False
    batch: int | None = None
    ordered: bool = False
    forwards: bool = False  # its handler forwards messages to other streams
    schema_versions: frozenset[int] | None = None  # None: all


class Subscription:
    """`topic` is a name, or a pattern in which `*` stands for one dotted segment. `rules` are None for a
    pattern: the topics that match have their own."""

    def __init__(
        self,
        topic: str,
        group: str,
        handler: Handler,
        options: SubscriptionOptions,
        rules: TopicRules | None = None,
    ) -> None:
        self.topic = topic
        self.group = group
        self.handler = handler
        self.rules = rules
        self.ack = options.ack
        self.start: Start = options.start
        self.max_in_flight: int = options.max_in_flight
        self.fan_out: bool = options.fan_out
        self.batch: int | None = options.batch
        self.ordered: bool = options.ordered
        self.forwards: bool = options.forwards

    def __str__(self) -> str:
        return f"{self.topic} (fan-out)" if self.fan_out else f"{self.topic}/{self.group}"

    @property
    def is_pattern(self) -> bool:
        return "*" in self.topic

    @property
    def held(self) -> bool:
        """Whether its events are held under a lease while they are handled."""
        return self.ack != "receipt" and not self.fan_out

    def matches(self, topic: str) -> bool:
        return self._expression.fullmatch(topic) is not None

    def overlaps(self, other: Subscription) -> bool:
        """Whether both subscriptions could serve the same topic."""
        ours, theirs = self.topic.split("."), other.topic.split(".")
        return (
            self.group == other.group
            and len(ours) == len(theirs)
            and all(
                one == another or "*" in (one, another) for one, another in zip(ours, theirs, strict=True)
            )
        )

    def stream(self, topic: str) -> Stream:
        """The stream from which the events of a topic are claimed."""
        return group_stream(topic, self.group)

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        segments = (r"[^.]+" if part == "*" else re.escape(part) for part in re.split(r"(\*)", self.topic))
        return re.compile("".join(segments))
