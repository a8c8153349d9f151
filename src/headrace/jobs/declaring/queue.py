"""The declaration of queues. A queue needs a declaration only for its options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never, TypedDict

from headrace.core.errors import ConfigurationError
from headrace.core.limits.limit import Limit
from headrace.core.messages.retry import RetryFunction, RetryPolicy, checked_retry
from headrace.core.rules.layout import checked_partitions
from headrace.core.values.checks import unknown_option
from headrace.core.values.durations import Duration, positive_seconds
from headrace.core.values.names import checked_name
from headrace.core.values.whole_numbers import positive_number, whole_number
from headrace.engine.declared.queue import Queue
from headrace.engine.declared.registry import Registry, where
from headrace.jobs.options import checked_limits
from headrace.jobs.task import Task


class QueueSettings(TypedDict, total=False):
    """The options of `app.queue(...)`, as users write them. `App.queue` says what each of them means."""

    slots: int | None
    queue_limit: int | None
    retry: RetryPolicy | RetryFunction | None
    crash_limit: int | None
    on_dead: Task[..., Any] | str | None
    dead_retention: Duration | None
    dead_limit: int | None
    limits: Sequence[Limit]
    partitions: int | None
    hash_tag: str | None


def queue_options(
    name: object,
    *,
    slots: int | None = None,
    queue_limit: int | None = None,
    retry: RetryPolicy | RetryFunction | None = None,
    crash_limit: int | None = None,
    on_dead: Task[..., Any] | str | None = None,
    dead_retention: Duration | None = None,
    dead_limit: int | None = None,
    limits: Sequence[Limit] = (),
    partitions: int | None = None,
    hash_tag: str | None = None,
    **unknown: Never,
) -> Queue:
    """The checked options of a queue."""
    for option in unknown:
        raise unknown_option("queue()", option, QueueSettings.__annotations__)
    if hash_tag is not None and partitions is not None and partitions > 1:
        raise ConfigurationError(
            f"queue {name!r} has hash_tag=, which keeps it on one node, and partitions=, which spreads it: "
            "give one of them"
        )
    return Queue(
        checked_name("queue", name),
        slots=None if slots is None else positive_number("slots", slots),
        queue_limit=None if queue_limit is None else positive_number("queue_limit", queue_limit),
        retry=None if retry is None else checked_retry(retry),
        crash_limit=None if crash_limit is None else positive_number("crash_limit", crash_limit),
        on_dead=None if on_dead is None else _task_name(on_dead),
        dead_retention=None if dead_retention is None else positive_seconds("dead_retention", dead_retention),
        dead_limit=None if dead_limit is None else whole_number("dead_limit", dead_limit, least=0),
        partitions=None if partitions is None else checked_partitions(partitions),
        limits=checked_limits("limits", limits),
        hash_tag=None if hash_tag is None else checked_name("hash_tag", hash_tag),
    )


class DeclaredQueues:
    """The queues that an app declares, by name."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._queues: dict[str, Queue] = {}
        self.limits: dict[str, int] = {}  # how many jobs may wait in a queue, where its declaration says so

    def add(self, queue: Queue) -> bool:
        """Add a queue; False: it is declared already, with the same options."""
        known = self._queues.get(queue.name)
        if known is not None and _shown(known) != _shown(queue):
            raise ConfigurationError(
                f"queue {queue.name!r} is declared twice, with different options "
                f"({_difference(known, queue)}): declare it once, and give all its options there"
            )
        if known is not None:
            return False
        self._refuse_late(queue)
        self._queues[queue.name] = self._registry.declared_queues[queue.name] = queue
        if queue.queue_limit is not None:
            self.limits[queue.name] = queue.queue_limit
        return True

    def _refuse_late(self, queue: Queue) -> None:
        """Refuse what a worker that runs already would not see."""
        fixed = queue.slots, queue.crash_limit, queue.on_dead, queue.dead_retention, queue.dead_limit
        if queue.limits or any(each is not None for each in fixed):
            self._registry.refuse_while_running(f"queue {queue.name!r} with these options")


def _task_name(given: object) -> str:
    if isinstance(given, Task):
        return given.name
    if isinstance(given, str):
        return checked_name("task", given)
    raise ConfigurationError(f"on_dead must be a task of this app or its name, not {given!r}")


def _shown(queue: Queue) -> dict[str, str]:
    """The options as text. A module that is imported twice declares its functions again, and these differ."""
    options: dict[str, object] = {name: getattr(queue, name) for name in queue.__struct_fields__}
    retry = queue.retry
    if retry is not None and not isinstance(retry, RetryPolicy):
        options["retry"] = where(retry)
    options["limits"] = [limit.figures("") for limit in queue.limits]
    return {name: str(value) for name, value in options.items()}


def _difference(one: Queue, other: Queue) -> str:
    before, after = _shown(one), _shown(other)
    differ = [name for name in after if before[name] != after[name]]
    return "; ".join(f"{name}: {before[name]}, {after[name]}" for name in differ)
