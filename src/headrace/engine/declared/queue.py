"""A declared queue: its options, as producers and workers need them."""

from __future__ import annotations

import msgspec

from headrace.core.limits.limit import Limit
from headrace.core.messages.retry import RetryFunction, RetryPolicy


class Queue(msgspec.Struct, frozen=True):
    """A declared queue. Made by `app.queue(...)`. `partitions` is the number of parts of a queue that is not
    in use yet; None: the queue is not split. `limits` count all jobs of the queue. `QueueSettings` describes
    the other options. Times are seconds, and None: the option is not given."""

    name: str
    partitions: int | None = None
    limits: tuple[Limit, ...] = ()
    slots: int | None = None
    queue_limit: int | None = None
    retry: RetryPolicy | RetryFunction | None = None
    crash_limit: int | None = None
    on_dead: str | None = None  # the name of a task
    dead_retention: float | None = None
    dead_limit: int | None = None
    hash_tag: str | None = None

    def __str__(self) -> str:
        return self.name
