"""Which parts streams have, in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.core.layout import WHOLE, Layout, Layouts
from headrace.core.message import Message, Stream
from headrace.core.orders import LayoutOrder

from .store import Store


class MemoryLayouts(Layouts):
    _store: Store
    _now_us: Callable[[], int]

    async def layout(self, stream: Stream) -> Layout:
        with self._store.lock:
            return self._store.layouts.get(stream, WHOLE)

    async def propose(self, stream: Stream, parts: int) -> Layout:
        with self._store.lock:
            return self._store_layout(stream, self._stored(stream).with_proposal(parts))

    async def seal(self, part: Stream) -> None:
        with self._store.lock:
            self._store.shelf(part).sealed = True

    async def adopt(self, stream: Stream, expected: Layout) -> Layout:
        with self._store.lock:
            stored = self._stored(stream)
            if stored != expected:
                return stored
            return self._store_layout(stream, stored.with_adoption(self._now_us()))

    async def forget(self, stream: Stream, number: int) -> Layout:
        with self._store.lock:
            return self._store_layout(stream, self._stored(stream).without(number))

    async def drop(self, part: Stream) -> None:
        with self._store.lock:
            self._store.shelves.pop(part, None)

    async def restore(self, stream: Stream, layout: Layout) -> Layout:
        with self._store.lock:
            stored = self._stored(stream)
            return self._store_layout(stream, layout) if stored.is_older_than(layout) else stored

    async def holders(self, stream: Stream, messages: Sequence[Message]) -> list[str | None]:
        with self._store.lock:
            shelf, now_us = self._store.shelf(stream), self._now_us()
            return [shelf.holder(message, now_us) for message in messages]

    def _stored(self, stream: Stream) -> Layout:
        return self._store.layouts.get(stream, WHOLE)

    def _store_layout(self, stream: Stream, layout: Layout) -> Layout:
        if layout != self._stored(stream):
            self._store.layouts[stream] = layout
            self._store.announce(LayoutOrder(stream))
        return layout
