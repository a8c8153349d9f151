"""The router's verbs about outboxes. Each part of a stream has an outbox of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.core.messages.message import Stream
from headrace.core.outbox.outbox import OutboxRecord, OutgoingBatch, Refusal
from headrace.core.rules.layout import whole_stream

from .layouts import Routed
from .routing import spread


class OutboxVerbs(Routed):
    async def take_outgoing(
        self, streams: Sequence[Stream], *, relay: str, limit: int, hold_us: int
    ) -> list[OutgoingBatch]:
        parts = [part for stream in streams for part in await self._layouts.parts(stream)]
        return await self.store.take_outgoing(parts, relay=relay, limit=limit, hold_us=hold_us)

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        await self.store.hand_on(batch, kept=kept)

    async def outboxes(self) -> list[OutboxRecord]:
        wholes: dict[Stream | None, OutboxRecord] = {}
        for record in await self.store.outboxes():
            whole = None if record.origin is None else whole_stream(record.origin)
            before = wholes.get(whole, OutboxRecord(whole, 0, 0))
            wholes[whole] = OutboxRecord(
                whole, before.waiting + record.waiting, max(before.oldest_us, record.oldest_us)
            )
        return list(wholes.values())

    async def bury(self, stream: Stream, refusals: Sequence[Refusal]) -> None:
        plan = await self._layouts.plan(stream)
        if plan is None:
            await self.store.bury(stream, refusals)
            return
        messages = [refusal.message for refusal in refusals]
        parts = spread(stream, plan.layout.current, messages, range(len(messages)))
        await asyncio.gather(
            *(self.store.bury(part, [refusals[index] for index in some]) for part, some in parts.items())
        )
