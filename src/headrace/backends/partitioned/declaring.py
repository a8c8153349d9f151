"""What the code declares of layouts: it counts for a stream that nobody has used yet."""

from __future__ import annotations

import logging

from headrace.core.backend import Backend
from headrace.core.layout import Layout
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
        if layout.proposed == wanted:  # another process does it at this moment
            return await self._changes.split(stream, wanted)
        if layout.whole and not layout.proposed and stream not in await self._inner.streams():
            return await self._changes.split(stream, wanted)
        log.warning(
            "%s %r is declared with %d partitions and has %d: what is stored counts; `%s` changes it",
            stream.kind,
            stream.name,
            wanted,
            layout.current.parts,
            "headrace topics split" if stream.kind == "topic" else "headrace split",
        )
        return layout
