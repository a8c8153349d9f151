"""Keeps in memory which parts streams have."""

from __future__ import annotations

from headrace.core.messages.message import Stream
from headrace.core.records.control import LayoutNotice
from headrace.core.rules.layout import WHOLE, Layout

from .shared_state import SharedState


class MemoryLayouts:
    _store: SharedState

    async def layout(self, stream: Stream) -> Layout:
        with self._store.lock:
            return self._store.layouts.get(stream, WHOLE)

    async def swap_layout(self, stream: Stream, expected: Layout, new: Layout) -> Layout:
        with self._store.lock:
            stored = self._store.layouts.get(stream, WHOLE)
            if stored != expected or new == stored or self._is_fixed(stream, stored):
                return stored
            self._store.layouts[stream] = new
            self._store.stream_state(stream).sealed = new.sealed
            self._store.announce(LayoutNotice(stream))
            return new

    def _is_fixed(self, stream: Stream, stored: Layout) -> bool:
        stream_state = self._store.stream_states.get(stream)
        return (
            stream.kind == "topic"
            and stored == WHOLE
            and stream_state is not None
            and stream_state.established
        )
