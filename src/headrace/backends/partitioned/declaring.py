"""What the code declares of layouts: it counts for a stream that nobody has used yet."""

from __future__ import annotations

import logging

from headrace.core.backend import Backend
from headrace.core.layout import WHOLE, Layout
from headrace.core.message import Stream

from .changing import Changes

log = logging.getLogger("headrace")


class Declarations:
    def __init__(self, inner: Backend, changes: Changes) -> None:
        self._inner = inner
        self._changes = changes
        self.parts: dict[Stream, int] = {}

    async def heed(self, stream: Stream, layout: Layout) -> Layout:
        """Lay out a stream that is used for the first time as the code wants it; of any other what is stored
        counts, and is said once when it differs."""
        wanted = self.parts.get(stream)
        if wanted is None or layout.current.parts == wanted:
            return layout
        if stream.kind == "topic":
            layout = await self._changes.lay_out_topic(stream, wanted) if layout == WHOLE else layout
        elif layout.proposed == wanted or await self._is_unused(stream, layout):
            # Proposed: another process does it at this moment.
            layout = await self._changes.split(stream, wanted)
        if layout.current.parts != wanted:
            log.warning(
                "%s %r is declared with %d partitions and has %d: what is stored counts; %s",
                stream.kind,
                stream.name,
                wanted,
                layout.current.parts,
                "it was fixed when the topic was made"
                if stream.kind == "topic"
                else "`headrace split` changes it",
            )
        return layout

    async def _is_unused(self, queue: Stream, layout: Layout) -> bool:
        return layout.whole and not layout.proposed and queue not in await self._inner.streams()
