"""What the parts of the wrapper share."""

from __future__ import annotations

import contextlib
from typing import Final

from headrace.core.backend import Backend
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Stream

from .layouts import KnownLayouts
from .routing import Plan

#: Seconds for which whoever looks trusts what is known of a layout.
RECENT: Final = 2.0


class Desk:
    _inner: Backend
    _layouts: KnownLayouts

    async def _parts(self, stream: Stream) -> tuple[Stream, ...]:
        """All parts of a stream, the oldest first; of a whole one itself."""
        plan = await self._recent_plan(stream)
        return (stream,) if plan is None else plan.parts

    async def _recent_plan(self, stream: Stream) -> Plan | None:
        """For one who looks: a process without a worker neither listens nor beats, and may know nothing of a
        change."""
        if self._layouts.age(stream) > RECENT:
            with contextlib.suppress(BackendUnavailable):  # whatever is asked next says so, if it matters
                await self._layouts.refresh(stream)
        return await self._layouts.plan_in_sight(stream)
