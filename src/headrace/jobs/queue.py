"""A queue that is declared, which is only needed where there is more to say of it than its name."""

from __future__ import annotations

import msgspec

from headrace.core.layout import checked_partitions
from headrace.core.message import Stream
from headrace.core.names import checked_name
from headrace.engine.streams import StreamRouter


class Queue(msgspec.Struct, frozen=True):
    """What `app.queue(...)` gives. `partitions` is how many parts a queue gets that nobody has used yet;
    None: nothing was said, and it is whole."""

    name: str
    partitions: int | None = None

    def __str__(self) -> str:
        return self.name


def declared_queue(router: StreamRouter, name: str, partitions: int | None) -> Queue:
    queue = Queue(checked_name("queue", name), None if partitions is None else checked_partitions(partitions))
    if queue.partitions is not None:
        router.declare(Stream("queue", queue.name), queue.partitions)
    return queue
