"""Trims the sealed parts of topics.

An append trims the log that it writes to, and members of groups trim all parts of their topic. But nobody
appends to a sealed part, and a topic may have no group: nobody reads it, or each process for itself.
"""

from __future__ import annotations

import time
from typing import Final

from headrace.core.backend import Backend
from headrace.core.message import Stream

from .layouts import KnownLayouts
from .routing import sealed_parts

#: Seconds between two rounds when there is nothing more to trim, and how many events of a part go in one.
EVERY: Final = 300.0
MOST: Final = 10_000


class Trimming:
    def __init__(self, inner: Backend, layouts: KnownLayouts) -> None:
        self._inner = inner
        self._layouts = layouts
        self._trimmed_at: float | None = None

    async def trim_what_is_sealed(self) -> None:
        """Of the topics that this process uses."""
        now = time.monotonic()
        if not self._layouts.any_split or (self._trimmed_at is not None and now - self._trimmed_at < EVERY):
            return
        more = (await self._inner.tend(await self._sealed_parts(), limit=MOST)).more
        self._trimmed_at = None if more else now

    async def _sealed_parts(self) -> list[Stream]:
        topics = [stream for stream in self._layouts.known() if stream.kind == "topic"]
        plans = [await self._layouts.plan(topic) for topic in topics]
        return [part for plan in plans if plan for part in sealed_parts(plan.stream, plan.layout)]
