"""Which parts streams have: a field of the stream's own hash, changed only if it is still as it was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.core.decoding import text_of
from headrace.core.layout import Layout, Layouts, decode_layout, encode_layout
from headrace.core.message import Message, Stream

from .connection import Word
from .keys import label_of
from .scripts import DROP, HOLDERS, LAYOUT, SEAL
from .store import Store

#: Messages that one script looks for.
ITEMS = 500


class RedisLayouts(Layouts):
    _store: Store

    async def layout(self, stream: Stream) -> Layout:
        return decode_layout(await self._stored(stream))

    async def _stored(self, stream: Stream) -> bytes | None:
        stored: bytes | None = await self._store.command(
            "HGET", self._store.queue(stream).keys.meta, "layout"
        )
        return stored

    async def propose(self, stream: Stream, parts: int) -> Layout:
        return await self._change(stream, lambda stored: stored.with_proposal(parts))

    async def seal(self, part: Stream) -> None:
        await self._store.run(self._store.queue(part).call(SEAL))

    async def adopt(self, stream: Stream, expected: Layout) -> Layout:
        def adopt(stored: Layout) -> Layout:
            return stored.with_adoption(self._store.now_us()) if stored == expected else stored

        return await self._change(stream, adopt)

    async def forget(self, stream: Stream, number: int) -> Layout:
        return await self._change(stream, lambda stored: stored.without(number))

    async def drop(self, part: Stream) -> None:
        await self._store.run(self._store.queue(part).call(DROP))
        await self._store.command("SREM", self._store.keys.streams, label_of(part))
        self._store.listed.discard(part)

    async def restore(self, stream: Stream, layout: Layout) -> Layout:
        return await self._change(stream, lambda stored: layout if stored.is_older_than(layout) else stored)

    async def holders(self, stream: Stream, messages: Sequence[Message]) -> list[str | None]:
        by_id = int(stream.kind != "topic")
        queue = self._store.queue(stream)
        chunks = [messages[start : start + ITEMS] for start in range(0, len(messages), ITEMS)]
        calls = [queue.call(HOLDERS, by_id, *_words(chunk)) for chunk in chunks]
        replies = await self._store.run_all(calls) if calls else []
        return [text_of(id) or None for reply in replies for id in reply]

    async def _change(self, stream: Stream, change: Callable[[Layout], Layout]) -> Layout:
        """What stands there then."""
        content = await self._stored(stream) or b""
        queue = self._store.queue(stream)
        while True:
            stored = decode_layout(content)
            layout = change(stored)
            if layout == stored:
                return stored
            wanted = encode_layout(layout)
            found: bytes = await self._store.run(queue.call(LAYOUT, content, wanted))
            if found == wanted:
                return layout
            content = found


def _words(messages: Sequence[Message]) -> list[Word]:
    words: list[Word] = []
    for message in messages:
        words += (message.id, f"u{message.unique.key}" if message.unique else "")
    return words
