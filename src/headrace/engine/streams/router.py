"""The one class that engine, admin, jobs and events call. It routes every verb to the streams of the store.

This module has opening and closing, the path of a message, upkeep and layouts. Inspection and control are in
`looking.py`, topics in `topics.py`, schedules in `schedules.py`, outboxes in `outboxes.py`,
history in `history.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from headrace.core.errors import HeadraceError, Moved, NotConfirmed
from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Batch, Stream
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.records.answers import Answer, Promoted, Reclaimed
from headrace.core.records.control import ControlMessage, ControlState, LayoutNotice
from headrace.core.records.record import WorkerInfo
from headrace.core.rules.layout import Layout, whole_stream
from headrace.core.store import NO_CRASH_LIMITS, LeaseKeeper, Store

from .forgetting import Forgetting
from .history import HistoryVerbs
from .layouts import RECENT, KnownLayouts, base_of
from .limits import LimitVerbs
from .looking import LookingVerbs
from .outboxes import OutboxVerbs
from .routing import Plan
from .schedules import ScheduleVerbs
from .sending import Sender
from .splitting import Declarations, Splitting
from .topic_reader import TopicReader
from .topics import TopicVerbs
from .whole_names import (
    message_of_whole,
    promoted_of_whole,
    recovered_of_whole,
    state_of_whole,
    worker_with_parts,
)

#: Layouts are read again at every n-th heartbeat of a worker.
REFRESH_EVERY: Final = 2

#: The number of layouts that are read again at once: the ones with the oldest reads.
REFRESHED: Final = 4


class StreamRouter(TopicVerbs, LookingVerbs, OutboxVerbs, LimitVerbs, HistoryVerbs, ScheduleVerbs):
    """Streams by the names that users know, over a store in which some of them have parts.

    Its verbs have the names and meanings of the store's. A stream without parts goes straight to the store:
    the cost is one lookup in a set.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.appends_at_once: int = store.appends_at_once
        self._layouts = KnownLayouts(store, changed=self._layout_changed)
        self._leases: dict[Stream, int] = {}
        self._parts: dict[Stream, int] = {}  # those declared, with their lease
        self._topic_reader = TopicReader(store)
        self._splitting = Splitting(store, self._layouts)
        self._declarations = Declarations(store, self._splitting)
        self._layouts.on_first_use(self._declarations.apply)
        self._sender = Sender(store, self._layouts, self._splitting, self._refresh_soon)
        self._forgetting = Forgetting(store, self._layouts)
        self._consumers: set[str] = set()
        self._refreshing: set[asyncio.Task[None]] = set()
        self._beats = count(1)

    @property
    def description(self) -> str:
        return self.store.description

    def for_other_loop(self) -> StreamRouter:
        """A router for another event loop. Both share the declarations of streams."""
        twin = type(self)(self.store.for_other_loop())
        twin._declarations.parts = self._declarations.parts
        return twin

    async def open(self) -> None:
        await self.store.open()

    async def close(self) -> None:
        for task in list(self._refreshing):
            if task.get_loop() is asyncio.get_running_loop():  # else it is gone, with its loop
                task.cancel()
        self._refreshing.clear()
        await self.store.close()

    # --- the path of a message ---------------------------------------------------------------------------

    async def declare_stream(self, stream: Stream, lease_us: int) -> int | None:
        self._layouts.served.add(stream)
        plan = await self._layouts.plan(stream)
        self._leases[stream] = lease_us
        previous = await self.store.declare_stream(stream, lease_us)
        if plan is not None:
            await self._make_ready(plan)
        return previous

    async def _make_ready(self, plan: Plan) -> None:
        """Declare parts that this process does not know yet, and those whose lease has changed."""
        lease_us = self._leases.get(plan.stream)
        if lease_us is None:
            return
        new = [part for part in plan.parts if part != plan.stream and self._parts.get(part) != lease_us]
        for part in new:
            await self.store.declare_stream(part, lease_us)
        if new:
            await self._splitting.follow_pause(plan.stream, new)
        self._parts.update((part, lease_us) for part in new)

    async def append(self, batch: Batch) -> list[Answer]:
        if batch.stream not in self._layouts.whole:
            return await self._sender.append(batch)
        try:
            return await self.store.append(batch)
        except Moved as moved:
            return await self._sender.take_over(batch, moved)
        except NotConfirmed:
            raise
        except BaseException:
            self._sender.note_unanswered(batch)
            raise

    def claim(
        self,
        streams: Sequence[Stream],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        constrained: int | None = None,
        wait: float,
    ) -> Coroutine[Any, Any, list[Claim]]:
        self._consumers.add(consumer)
        whole = self._layouts.whole
        if all([stream in whole for stream in streams]):
            return self.store.claim(
                streams,
                consumer=consumer,
                limit=limit,
                suspects=suspects,
                children=children,
                constrained=constrained,
                wait=wait,
            )
        return self._claim(
            streams,
            consumer=consumer,
            limit=limit,
            suspects=suspects,
            children=children,
            constrained=constrained,
            wait=wait,
        )

    async def _claim(
        self,
        streams: Sequence[Stream],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        constrained: int | None = None,
        wait: float,
    ) -> list[Claim]:
        claims = await self.store.claim(
            await self._claimable(streams),
            consumer=consumer,
            limit=limit,
            suspects=suspects,
            children=children,
            constrained=constrained,
            wait=wait,
        )
        wholes = self._layouts.wholes
        return [
            claim if (whole := wholes.get(claim.stream)) is None else replace(claim, part_of=whole)
            for claim in claims
        ]

    async def _claimable(self, streams: Sequence[Stream]) -> list[Stream]:
        """All parts of these streams, ready for claims."""
        for stream in streams:
            plan = await self._layouts.plan(stream)
            if plan is not None:
                await self._make_ready(plan)
        return await self._parts_of(streams)

    def wake(self, consumer: str) -> None:
        self.store.wake(consumer)
        self._topic_reader.wake(consumer)

    def settle(self, settlements: Sequence[Settlement]) -> Coroutine[Any, Any, list[Verdict]]:
        return self.store.settle(settlements)

    async def report_progress(self, reports: Sequence[Report]) -> None:
        await self.store.report_progress(reports)

    def lease_keeper(self) -> LeaseKeeper:
        return self.store.lease_keeper()

    # --- upkeep ------------------------------------------------------------------------------------------

    async def reclaim(
        self,
        streams: Sequence[Stream],
        *,
        limit: int,
        every_us: int = 0,
        after_outage: bool = False,
        crash_limits: Mapping[Stream, int] = NO_CRASH_LIMITS,
    ) -> Reclaimed:
        limits: dict[Stream, int] = {}
        for stream, most in crash_limits.items():
            limits.update(dict.fromkeys(await self._parts_of([stream]), most))
        reclaimed = await self.store.reclaim(
            await self._parts_of(streams),
            limit=limit,
            every_us=every_us,
            after_outage=after_outage,
            crash_limits=limits,
        )
        return recovered_of_whole(reclaimed)

    async def promote(self, streams: Sequence[Stream], *, limit: int) -> Promoted:
        return promoted_of_whole(await self.store.promote(await self._parts_of(streams), limit=limit))

    async def prune(self, *, limit: int) -> int:
        await self._forgetting.forget_what_is_over()
        return await self.store.prune(limit=limit)

    async def heartbeat(
        self, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]], *, leaving: bool = False
    ) -> ControlState:
        readers = {consumer: await self._with_parts(streams) for consumer, streams in readers.items()}
        if leaving:
            self._consumers.difference_update(readers)
            return await self.store.heartbeat(worker, readers, leaving=True)
        streams = await self._with_parts(worker.streams)
        if len(streams) > len(worker.streams):
            worker = worker_with_parts(worker, streams)
        state = await self.store.heartbeat(worker, readers)
        for stream, layout in state.layouts.items():
            if whole_stream(stream) is stream:
                await self._layouts.accept(stream, layout)
        if next(self._beats) % REFRESH_EVERY == 0:
            await self._refresh_all()
        return state_of_whole(state)

    async def _with_parts(self, streams: Sequence[Stream]) -> list[Stream]:
        """These streams and their parts. The pause and the lease of a stream are stored under its own name,
        even when only its parts have messages."""
        parts = list(await self._parts_of(streams))
        return list(dict.fromkeys((*streams, *parts)))

    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        def hear_of_whole(message: ControlMessage) -> None:
            if isinstance(message, LayoutNotice):
                self._refresh_soon(message.stream)
            elif (whole := message_of_whole(message)) is not None:
                hear(whole)

        return self.store.listen(hear_of_whole)

    async def _parts_of(self, streams: Iterable[Stream]) -> list[Stream]:
        """All parts, as a worker knows them. It gets announcements of changes, and asks at heartbeats."""
        places: list[Stream] = []
        for stream in streams:
            plan = await self._layouts.plan(stream)
            places += [stream] if plan is None else plan.parts
        return places

    # --- layouts -----------------------------------------------------------------------------------------

    async def layout(self, stream: Stream) -> Layout:
        """The layout that the store has now."""
        return await self._layouts.refresh(stream)

    async def split(self, stream: Stream, parts: int) -> Layout:
        """Give the stream this many parts, and return its layout then. A topic in use is not changed."""
        self._layouts.stored.demand()
        if stream.kind == "topic":
            return await self._splitting.lay_out_topic(stream, parts)
        return await self._splitting.split(stream, parts)

    @property
    def declared(self) -> Mapping[Stream, int]:
        """The numbers of parts that the code declares."""
        return self._declarations.parts

    def declare(self, stream: Stream, parts: int) -> None:
        """Declare the number of parts of a stream. It has an effect only before the stream's first use."""
        if parts > 1:
            self._layouts.stored.demand()
        self._declarations.parts[stream] = parts

    def _layout_changed(self, base: Stream) -> None:
        for consumer in self._consumers:
            self.wake(consumer)  # it may wait for messages in the old parts

    def _refresh_soon(self, stream: Stream) -> None:
        if base_of(stream) in self._layouts.known():
            task = asyncio.get_running_loop().create_task(self._refresh(stream))
            self._refreshing.add(task)
            task.add_done_callback(self._refreshing.discard)

    async def _refresh(self, stream: Stream) -> None:
        with contextlib.suppress(HeadraceError):  # the next heartbeat asks again
            await self._layouts.refresh(stream)

    async def _refresh_all(self) -> None:
        """Read some layouts again: an announcement may have been missed."""
        old = [stream for stream in self._layouts.known() if self._layouts.age(stream) > RECENT]
        await asyncio.gather(*map(self._refresh, sorted(old, key=self._layouts.age)[-REFRESHED:]))
