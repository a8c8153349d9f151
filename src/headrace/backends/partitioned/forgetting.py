"""Generations that are over: sealed long ago, and empty."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Final

from headrace.core.backend import Backend
from headrace.core.clock import SECOND
from headrace.core.errors import BackendUnavailable
from headrace.core.layout import Generation, parts_of
from headrace.core.message import Stream

from .layouts import KnownLayouts

#: Microseconds after which a sealed generation may be forgotten. Nobody trusts a layout for nearly as long.
KEPT_FOR: Final = 7 * 24 * 3600 * SECOND

#: Seconds between two looks.
EVERY: Final = 300.0

#: Takes the groups off a topic's part in which nothing is left; False: there is something.
Clear = Callable[[Stream], Awaitable[bool]]


class Forgetting:
    def __init__(self, inner: Backend, layouts: KnownLayouts, clear_topic: Clear) -> None:
        self._inner = inner
        self._layouts = layouts
        self._clear_topic = clear_topic
        self._looked_at: float | None = None

    async def forget_what_is_over(self) -> None:
        """Of the streams that this process uses."""
        now = time.monotonic()
        if self._looked_at is not None and now - self._looked_at < EVERY:
            return
        self._looked_at = now
        for stream in self._layouts.known() if self._layouts.any_split else ():
            with contextlib.suppress(BackendUnavailable):  # there is time; and not every user has the rights
                await self._look_at(stream)

    async def _look_at(self, stream: Stream) -> None:
        plan = await self._layouts.plan(stream)
        sealed = plan.layout.generations[:-1] if plan else ()
        old = [each for each in sealed if each.number and each.sealed_us]
        if not old:
            return
        now_us = (await self._inner.schedules([stream])).now_us
        for generation in old:
            if generation.sealed_us + KEPT_FOR < now_us and await self._is_empty(stream, generation):
                self._layouts.learn(stream, await self._inner.forget(stream, generation.number))

    async def _is_empty(self, stream: Stream, generation: Generation) -> bool:
        parts = parts_of(stream, generation)
        if stream.kind == "topic":
            return all([await self._clear_topic(part) for part in parts])
        counts = await asyncio.gather(*map(self._inner.counts, parts))
        return not any(
            each.queued or each.running or each.scheduled or each.retrying or each.dead for each in counts
        )
