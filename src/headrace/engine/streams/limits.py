"""The router's verbs about limits. A limit covers the parts of a stream together."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.errors import ConfigurationError
from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.limiting import Limiting

from .layouts import Routed


class LimitVerbs(Routed):
    def demand_limiting(self) -> Limiting:
        """The store, if it has limits; otherwise raises."""
        store = self.store
        if isinstance(store, Limiting):
            return store
        raise ConfigurationError(
            f"the store {store.description} has no limits, tenants and ordered jobs, and cannot pause a task:"
            " use a store that has them, or declare the tasks and queues without them"
        )

    async def declare_limits(self, limits: Sequence[LimitFigures]) -> list[LimitFigures]:
        return await self.demand_limiting().declare_limits(limits)

    async def set_limit(self, name: str, figures: LimitFigures | None) -> bool:
        return await self.demand_limiting().set_limit(name, figures)

    async def limits(self, *, counted: bool = True) -> list[LimitRecord]:
        return await self.store.limits(counted=counted) if isinstance(self.store, Limiting) else []

    def use_hash_tag(self, queue: str, tag: str) -> None:
        if isinstance(self.store, Limiting):
            self.store.use_hash_tag(queue, tag)

    def hash_tag_of(self, queue: str) -> str:
        return self.store.hash_tag_of(queue) if isinstance(self.store, Limiting) else ""

    @property
    def limits_each_stream(self) -> bool:
        """Whether a limit counts each stream by itself."""
        return isinstance(self.store, Limiting) and self.store.limits_each_stream
