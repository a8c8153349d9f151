"""The streams that one worker serves: its queues, the groups that it joined, and the topics of those."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.messages.message import Stream


class ServedStreams:
    """Streams are added when a subscription with a pattern finds a topic."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.queues = tuple(Stream("queue", name) for name in queues)
        self.groups: list[Stream] = []
        self.topics: list[Stream] = []  # where delayed events wait
        self.claimed = list(self.queues)  # queues and groups, for claims and recovery

    def add_group(self, stream: Stream) -> None:
        self.claimed.append(stream)
        self.groups.append(stream)

    def add_topic(self, topic: Stream) -> None:
        if topic not in self.topics:
            self.topics.append(topic)
