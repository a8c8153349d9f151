"""A declared queue. A queue needs a declaration only for its options."""

from __future__ import annotations

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.rules.layout import checked_partitions
from headrace.core.values.names import checked_name
from headrace.engine.streams import StreamRouter


class Queue(msgspec.Struct, frozen=True):
    """A declared queue. Made by `app.queue(...)`. `partitions` is the number of parts of a queue that is not
    in use yet; None: the queue is not split."""

    name: str
    partitions: int | None = None

    def __str__(self) -> str:
        return self.name


def declared_queue(router: StreamRouter, name: str, partitions: int | None) -> Queue:
    """Check the options of a queue, and declare its partitions to the store."""
    queue = Queue(checked_name("queue", name), None if partitions is None else checked_partitions(partitions))
    if queue.partitions is not None:
        router.declare(Stream("queue", queue.name), queue.partitions)
    return queue
