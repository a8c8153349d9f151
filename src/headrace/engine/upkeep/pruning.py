"""Removes data from the store when its time is over: results, records of ended jobs, old counts."""

from __future__ import annotations

import random

from headrace.engine.emitter import Emitter
from headrace.engine.service import Service
from headrace.engine.streams import StreamRouter

#: Records removed in one step of the store.
PRUNE_BATCH = 1000

#: Seconds between two rounds.
PRUNE_EVERY = 60.0


class Pruning(Service):
    def __init__(self, backend: StreamRouter, *, emitter: Emitter) -> None:
        self._backend = backend
        super().__init__("pruning", self._prune, emitter=emitter)

    async def _prune(self) -> float | None:
        pruned = await self._backend.prune(limit=PRUNE_BATCH)
        return None if pruned >= PRUNE_BATCH else PRUNE_EVERY * random.uniform(0.5, 1.5)  # nosec B311 # jitter
