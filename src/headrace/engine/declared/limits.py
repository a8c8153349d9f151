"""The limits that an app declares, by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headrace.core.errors import ConfigurationError
from headrace.core.limits.figures import LimitFigures
from headrace.core.messages.message import Stream
from headrace.core.signals import LimitChanged
from headrace.engine.app_loop.retrying import with_retries
from headrace.engine.emitter import Emitter
from headrace.engine.streams import StreamRouter


class DeclaredLimits:
    """One name has one set of figures in an app. Workers declare them to the store when they start."""

    def __init__(self) -> None:
        self._figures: dict[str, tuple[LimitFigures, str]] = {}
        self._queues: dict[str, set[str]] = {}  # by the name of the limit

    def __bool__(self) -> bool:
        return bool(self._figures)

    def add(self, limits: Iterable[LimitFigures], owner: str, queue: str) -> None:
        """Add the limits of a task or queue, whose jobs are in this queue."""
        for figures in limits:
            known, where = self._figures.setdefault(figures.name, (figures, owner))
            if known != figures:
                raise ConfigurationError(
                    f"limit {figures.name!r} is declared with different figures by {where} and {owner}: "
                    "declare it once and use it in both, or give one of them another name"
                )

            self._queues.setdefault(figures.name, set()).add(queue)

    def figures_of(self, name: str) -> LimitFigures | None:
        """What the code says of a limit; None: it does not declare it."""
        found = self._figures.get(name)
        return None if found is None else found[0]

    def queues_beside(self, served: Collection[str]) -> list[str]:
        """The other queues that share a limit with one of these."""
        shared = [queues for queues in self._queues.values() if not queues.isdisjoint(served)]
        return sorted(set().union(*shared).difference(served))

    async def check(self, store: StreamRouter) -> None:
        """Refuse limits that the store could not count together."""
        if not store.limits_each_stream:
            return
        for name, queues in sorted(self._queues.items()):
            tags = {store.hash_tag_of(queue) for queue in queues}
            if len(queues) > 1 and (len(tags) > 1 or "" in tags):
                raise ConfigurationError(
                    f"limit {name!r} concerns the queues {', '.join(sorted(queues))}, and on a Redis Cluster "
                    "a limit counts the jobs of queues with the same hash tag: declare each of them with the "
                    f"same one, such as app.queue({min(queues)!r}, hash_tag={name!r}), or give each queue "
                    "a limit with a name of its own"
                )
            for queue in sorted(queues):
                await _refuse_parts(store, name, queue)

    async def declare_to(self, store: StreamRouter, emitter: Emitter) -> None:
        """Declare all limits to the store. The newest declaration holds, for all workers."""
        if self._figures:
            limits = {name: figures for name, (figures, _) in self._figures.items()}
            for before in await with_retries(lambda: store.declare_limits(list(limits.values()))):
                emitter.emit(LimitChanged(before.name, str(before), str(limits[before.name])))


async def _refuse_parts(store: StreamRouter, limit: str, queue: str) -> None:
    if await _has_parts(store, Stream("queue", queue)):
        raise ConfigurationError(
            f"limit {limit!r} concerns the queue {queue!r}, which has partitions, and on a Redis Cluster a "
            "limit counts the jobs of one partition: remove the limit, or use a queue without partitions"
        )


async def _has_parts(store: StreamRouter, queue: Stream) -> bool:
    if store.declared.get(queue, 1) > 1:
        return True
    return not (await with_retries(lambda: store.layout(queue))).whole
