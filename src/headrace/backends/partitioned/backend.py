"""The verbs of the contract over a store whose streams may be split. The path of messages is here, what looks
and steers is in `inspector.py`, what only topics have in `topics.py`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from headrace.core.backend import Answer, Backend, CancelAnswer, LeaseKeeper, Promoted, Reclaimed
from headrace.core.claim import Claim, Report
from headrace.core.errors import HeadraceError, Moved, NotConfirmed
from headrace.core.layout import Layout, whole_stream
from headrace.core.message import Batch, Message, Source, Stream
from headrace.core.orders import LayoutOrder, Order, Standing
from headrace.core.outcome import Settlement, Verdict
from headrace.core.record import Record, WorkerInfo

from .changing import Changes
from .claims import PartitionedLeaseKeeper, unwrap_reports, unwrap_settlements, wrap
from .declaring import Declarations
from .desk import RECENT
from .forgetting import Forgetting
from .inspector import PartitionedInspector
from .layouts import KnownLayouts, base_of
from .orders import (
    order_of_whole,
    promoted_of_whole,
    record_of_whole,
    recovered_of_whole,
    standing_of_whole,
    worker_with_parts,
)
from .routing import Plan
from .schedules import PartitionedScheduling
from .sending import Sender
from .topics import PartitionedTopics

#: Every so many beats of a worker layouts are read again.
REFRESH_EVERY: Final = 2

#: So many at once, those that were not read for the longest.
REFRESHED: Final = 4


class Partitioned(PartitionedTopics, PartitionedInspector, PartitionedScheduling, Backend):
    """A stream that was never split goes straight to the store: what is added is one look into a set."""

    def __init__(self, inner: Backend) -> None:
        self.inner = self._inner = inner
        self.appends_at_once = inner.appends_at_once
        self._layouts = KnownLayouts(inner, changed=self._layout_changed)
        self._leases: dict[Stream, int] = {}
        self._ensured: dict[Stream, int] = {}  # parts, with their lease
        self._begin_topics()
        self._changes = Changes(inner, self._layouts)
        self._declarations = Declarations(inner, self._changes)
        self._layouts.on_first_use(self._declarations.heed)
        self._sender = Sender(inner, self._layouts, self._changes, self._refresh_soon)
        self._forgetting = Forgetting(inner, self._layouts)
        self._consumers: set[str] = set()
        self._refreshing: set[asyncio.Task[None]] = set()
        self._beats = count(1)

    @property
    def description(self) -> str:
        return self._inner.description

    def twin(self) -> Backend:
        twin = Partitioned(self._inner.twin())
        twin._declarations.parts = self._declarations.parts
        return twin

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        for task in list(self._refreshing):
            if task.get_loop() is asyncio.get_running_loop():  # else it is gone, with its loop
                task.cancel()
        self._refreshing.clear()
        await self._inner.close()

    # --- the path of a message ---------------------------------------------------------------------------

    async def ensure(self, source: Source, lease_us: int) -> int | None:
        self._layouts.served.add(source.stream)
        plan = await self._layouts.plan(source.stream)
        self._leases[source.stream] = lease_us
        previous = await self._inner.ensure(source, lease_us)
        if plan is not None:
            await self._make_ready(plan)
        return previous

    async def _make_ready(self, plan: Plan) -> None:
        """Ensure parts that this process has not met yet, and those whose lease has become another."""
        lease_us = self._leases.get(plan.stream)
        if lease_us is None:
            return
        new = [part for part in plan.parts if part != plan.stream and self._ensured.get(part) != lease_us]
        for part in new:
            await self._inner.ensure(Source(part), lease_us)
        if new:
            await self._changes.follow_pause(plan.stream, new)
        self._ensured.update((part, lease_us) for part in new)

    async def append(self, batch: Batch) -> list[Answer]:
        if batch.stream not in self._layouts.whole:
            return await self._sender.append(batch)
        try:
            return await self._inner.append(batch)
        except Moved as moved:
            return await self._sender.take_over(batch, moved)
        except NotConfirmed:
            raise
        except BaseException:
            self._sender.note_unanswered(batch)
            raise

    def claim(
        self,
        sources: Sequence[Source],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        wait: float,
    ) -> Coroutine[Any, Any, list[Claim]]:
        self._consumers.add(consumer)
        whole = self._layouts.whole
        if all([source.stream in whole for source in sources]):
            return self._inner.claim(
                sources, consumer=consumer, limit=limit, suspects=suspects, children=children, wait=wait
            )
        return self._claim(
            sources, consumer=consumer, limit=limit, suspects=suspects, children=children, wait=wait
        )

    async def _claim(
        self,
        sources: Sequence[Source],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        wait: float,
    ) -> list[Claim]:
        claims = await self._inner.claim(
            await self._claimable(sources),
            consumer=consumer,
            limit=limit,
            suspects=suspects,
            children=children,
            wait=wait,
        )
        return wrap(claims, self._layouts.logical)

    async def _claimable(self, sources: Sequence[Source]) -> list[Source]:
        """All parts of these, ready to be claimed from."""
        for source in sources:
            plan = await self._layouts.plan(source.stream)
            if plan is not None:
                await self._make_ready(plan)
        return await self._sources(sources)

    def wake(self, consumer: str) -> None:
        self._inner.wake(consumer)
        self._wake_readers(consumer)

    def settle(self, settlements: Sequence[Settlement]) -> Coroutine[Any, Any, list[Verdict]]:
        # One look at the first is enough for a process that claims: it has met what it has claimed.
        if self._layouts.any_split or (settlements and type(settlements[0].claim.token) is Claim):
            settlements = unwrap_settlements(settlements)
        return self._inner.settle(settlements)

    async def report(self, reports: Sequence[Report]) -> None:
        await self._inner.report(unwrap_reports(reports))

    def lease_keeper(self) -> LeaseKeeper:
        return PartitionedLeaseKeeper(self._inner.lease_keeper())

    # --- upkeep ------------------------------------------------------------------------------------------

    async def reclaim(
        self, sources: Sequence[Source], *, limit: int, every_us: int = 0, after_outage: bool = False
    ) -> Reclaimed:
        reclaimed = await self._inner.reclaim(
            await self._sources(sources), limit=limit, every_us=every_us, after_outage=after_outage
        )
        return recovered_of_whole(reclaimed)

    async def promote(self, sources: Sequence[Source], *, limit: int) -> Promoted:
        return promoted_of_whole(await self._inner.promote(await self._sources(sources), limit=limit))

    async def prune(self, *, limit: int) -> int:
        await self._forgetting.forget_what_is_over()
        return await self._inner.prune(limit=limit)

    async def beat(self, worker: WorkerInfo) -> Standing:
        # Pause and lease of a stream are known under its own name, also where only its parts have messages.
        parts = [place.stream for place in await self._sources(map(Source, worker.streams))]
        streams = list(dict.fromkeys((*worker.streams, *parts)))
        if len(streams) > len(worker.streams):
            worker = worker_with_parts(worker, streams)
        standing = await self._inner.beat(worker)
        for stream, layout in standing.layouts.items():
            if whole_stream(stream) is stream:
                await self._layouts.heed(stream, layout)
        if next(self._beats) % REFRESH_EVERY == 0:
            await self._refresh_all()
        return standing_of_whole(standing)

    async def retire(self, sources: Sequence[Source], consumer: str) -> None:
        self._consumers.discard(consumer)
        await self._inner.retire(await self._sources(sources), consumer)

    def listen(self, hear: Callable[[Order], None]) -> Callable[[], None]:
        def hear_of_whole(order: Order) -> None:
            if isinstance(order, LayoutOrder):
                self._refresh_soon(order.stream)
            elif (whole := order_of_whole(order)) is not None:
                hear(whole)

        return self._inner.listen(hear_of_whole)

    async def _sources(self, sources: Iterable[Source]) -> list[Source]:
        """All parts, as a worker knows them: it is told of changes, and asks with its beats."""
        places: list[Source] = []
        for source in sources:
            plan = await self._layouts.plan(source.stream)
            places += [source] if plan is None else plan.sources
        return places

    # --- one message -------------------------------------------------------------------------------------

    async def look(self, stream: Stream, id: str) -> Record | None:
        plan = await self._recent_plan(stream)
        if plan is None:
            return await self._inner.look(stream, id)
        _, record = await self._locate(plan, id)
        return record_of_whole(record)

    async def ended(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        plan = await self._recent_plan(stream)
        if plan is None:
            return await self._inner.ended(stream, id, timeout)
        part, _ = await self._locate(plan, id)
        return record_of_whole(await self._inner.ended(part, id, timeout))

    async def cancel(self, stream: Stream, id: str, *, mark_us: int) -> CancelAnswer:
        async def cancel(part: Stream) -> CancelAnswer | None:
            answer = await self._inner.cancel(part, id, mark_us=mark_us)
            return None if answer is CancelAnswer.GONE else answer

        return await self._first(stream, id, cancel) or CancelAnswer.GONE

    # --- layouts -----------------------------------------------------------------------------------------

    async def layout(self, stream: Stream) -> Layout:
        return await self._layouts.refresh(stream)

    async def swap_layout(self, stream: Stream, expected: Layout, new: Layout) -> Layout:
        layout = await self._inner.swap_layout(stream, expected, new)
        self._layouts.learn(stream, layout)
        return layout

    async def split(self, stream: Stream, parts: int) -> Layout:
        if stream.kind == "topic":
            return await self._changes.lay_out_topic(stream, parts)
        return await self._changes.split(stream, parts)

    async def drop(self, part: Stream) -> None:
        await self._inner.drop(part)

    async def holders(self, stream: Stream, messages: Sequence[Message]) -> list[str | None]:
        found = [await self._inner.holders(part, messages) for part in await self._parts(stream)]
        return [next((id for id in ids if id is not None), None) for ids in zip(*found, strict=True)]

    @property
    def declared(self) -> Mapping[Stream, int]:
        return self._declarations.parts

    def declare(self, stream: Stream, parts: int) -> None:
        self._declarations.parts[stream] = parts

    def _layout_changed(self, base: Stream) -> None:
        for consumer in self._consumers:
            self.wake(consumer)  # it may wait at the parts from before

    def _refresh_soon(self, stream: Stream) -> None:
        if base_of(stream) in self._layouts.known():
            task = asyncio.get_running_loop().create_task(self._refresh(stream))
            self._refreshing.add(task)
            task.add_done_callback(self._refreshing.discard)

    async def _refresh(self, stream: Stream) -> None:
        with contextlib.suppress(HeadraceError):  # the next beat asks again
            await self._layouts.refresh(stream)

    async def _refresh_all(self) -> None:
        """An announcement may have been missed."""
        old = [stream for stream in self._layouts.known() if self._layouts.age(stream) > RECENT]
        await asyncio.gather(*map(self._refresh, sorted(old, key=self._layouts.age)[-REFRESHED:]))
