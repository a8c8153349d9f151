"""The verbs that inspect and control a queue, over all its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import TypeVar

from headrace.core.errors import after_a_part
from headrace.core.inspector import PURGED_END_RECORDS
from headrace.core.messages.message import Stream
from headrace.core.moving.moving import Moving
from headrace.core.moving.seal import Seal
from headrace.core.records.answers import CancelAnswer, DeadAge, DeadFilter, ReplayAnswer, Wanted
from headrace.core.records.findings import Finding
from headrace.core.records.record import Counts, DeadLetter, JobStatus, Page, Record, WorkerInfo
from headrace.core.records.traffic import TrafficCount, TrafficRecord
from headrace.core.rules.layout import parts_of, whole_stream

from .layouts import Routed
from .listing import page_of_dead, page_of_records
from .routing import Plan, part_in
from .whole_names import letter_of_whole, record_of_whole, sum_of, worker_of_whole

T = TypeVar("T")


class LookingVerbs(Routed):
    async def streams(self) -> list[Stream]:
        return list(dict.fromkeys(map(whole_stream, await self.store.streams())))

    async def seal(self) -> Seal | None:
        return await self.store.seal() if isinstance(self.store, Moving) else None

    async def counts(self, stream: Stream) -> Counts:
        parts = await self._layouts.parts(stream)
        return sum_of(await asyncio.gather(*map(self.store.counts, parts)))

    async def messages(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Record]:
        async def ask(part: Stream, cursor: str | None, limit: int) -> Page[Record]:
            page = await self.store.messages(part, status=status, task=task, cursor=cursor, limit=limit)
            return Page(tuple(filter(None, map(record_of_whole, page))), page.cursor)

        parts = await self._layouts.parts(stream)
        if len(parts) == 1:
            return await ask(stream, cursor, limit)
        return await page_of_records(parts, cursor, limit, ask)

    async def holders(self, stream: Stream, wanted: Sequence[Wanted]) -> list[str | None]:
        # Schedules append to the stream itself, which is not always one of its parts.
        parts = dict.fromkeys((*await self._layouts.parts(stream), stream))
        found = await asyncio.gather(*(self.store.holders(part, wanted) for part in parts))
        return [next((id for id in ids if id is not None), None) for ids in zip(*found, strict=True)]

    async def workers(self) -> list[WorkerInfo]:
        return [worker_of_whole(worker) for worker in await self.store.workers()]

    async def pause(self, stream: Stream, *, paused: bool) -> None:
        # The stream itself comes first: a process that makes parts at the same time copies its pause.
        await self.store.pause(stream, paused=paused)
        layout = await self._layouts.refresh(stream)
        parts = [part for part in await self._layouts.parts(stream) if part != stream]
        if layout.proposed:
            parts += parts_of(stream, layout.next)
        await asyncio.gather(*(self.store.pause(part, paused=paused) for part in parts))

    async def purge(
        self, stream: Stream, *, ttl_us: int, limit: int, end_records: int = PURGED_END_RECORDS
    ) -> int:
        purged = 0
        for part in await self._layouts.parts(stream):
            if purged < limit:
                with after_a_part(purged):
                    purged += await self.store.purge(
                        part, ttl_us=ttl_us, limit=limit - purged, end_records=end_records
                    )
        return purged

    async def dead_letters(
        self, stream: Stream, *, only: DeadFilter, cursor: str | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        async def ask(part: Stream, cursor: str | None, limit: int) -> Page[DeadLetter]:
            page = await self.store.dead_letters(part, only=only, cursor=cursor, limit=limit)
            return Page(tuple(letter_of_whole(letter, stream) for letter in page), page.cursor)

        parts = await self._layouts.parts(stream)
        if len(parts) == 1:
            return await self.store.dead_letters(stream, only=only, cursor=cursor, limit=limit)
        return await page_of_dead(parts, cursor, limit, ask)

    async def oldest_dead(self, stream: Stream, *, limit: int) -> list[DeadAge]:
        parts = await self._layouts.parts(stream)
        found = await asyncio.gather(*(self.store.oldest_dead(part, limit=limit) for part in parts))
        return sorted(chain(*found), key=lambda dead: dead.age_us, reverse=True)[:limit]

    async def replay(self, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
        await self._layouts.refresh(stream)
        plan = await self._layouts.plan_in_sight(stream)
        if plan is None:
            return await self.store.replay(stream, ids)
        answers: dict[str, ReplayAnswer] = {}
        for part, letters in (await self._dead_by_part(plan, ids)).items():
            # One part after the other: a replayed message may hold the key of a dead letter in the next part.
            with after_a_part(answers):
                hindered = [await self._is_hindered(plan, part, letter) for letter in letters]
                free = [letter.id for letter, held in zip(letters, hindered, strict=True) if not held]
                replayed = await self.store.replay(part, free) if free else ()
            answers |= {letter.id: ReplayAnswer.DUPLICATE for letter in letters}
            answers |= zip(free, replayed, strict=True)
        named: list[ReplayAnswer] = []
        for id in ids:
            named.append(answers.get(id, ReplayAnswer.GONE))
            if named[-1] is ReplayAnswer.REPLAYED:
                del answers[id]  # when the caller names it again, it is gone
        return named

    async def _dead_by_part(self, plan: Plan, ids: Sequence[str]) -> dict[Stream, list[Record]]:
        """The ids that are dead letters, by part, in their order: of several with one key the first is
        replayed. Most are in the part that their id selects."""
        found: dict[str, tuple[Stream, Record]] = {}
        left = {id: plan.likely(id) for id in ids}
        for likely in (True, False):
            for part in plan.parts:
                asked = [id for id, first in left.items() if (first == part) is likely]
                for record in await asyncio.gather(*(self.store.get(part, id) for id in asked)):
                    if record is not None and record.status is JobStatus.DEAD:
                        found[record.id] = part, record
                        del left[record.id]
        by_part: dict[Stream, list[Record]] = {}
        for part, record in [found[id] for id in dict.fromkeys(ids) if id in found]:
            by_part.setdefault(part, []).append(record)
        return by_part

    async def _is_hindered(self, plan: Plan, part: Stream, letter: Record) -> bool:
        """Whether another part holds its unique key: the replay itself checks only its own part."""
        if not letter.takes_key:
            return False
        key = letter.unique_key
        places = {plan.stream, *(part_in(plan.stream, each, key) for each in plan.layout.generations)}
        wanted = [Wanted(key=key)]
        held = await asyncio.gather(*(self.store.holders(other, wanted) for other in places - {part}))
        return any(id is not None for [id] in held)

    async def discard(self, stream: Stream, ids: Sequence[str]) -> int:
        parts = await self._layouts.parts(stream)
        with after_a_part(len(parts) > 1):
            return sum(await asyncio.gather(*(self.store.discard(part, ids) for part in parts)))

    async def clean(self, stream: Stream, ids: Sequence[str], *, status: JobStatus, ttl_us: int) -> int:
        parts = await self._layouts.parts(stream)
        with after_a_part(len(parts) > 1):
            cleaned = (self.store.clean(part, ids, status=status, ttl_us=ttl_us) for part in parts)
            return sum(await asyncio.gather(*cleaned))

    async def release_key(self, stream: Stream, key: str) -> bool:
        parts = dict.fromkeys((*await self._layouts.parts(stream), stream))
        return any(await asyncio.gather(*(self.store.release_key(part, key) for part in parts)))

    async def remove_queue(self, stream: Stream) -> bool:
        """Remove a queue with its parts; False: something is left in it."""
        # The stream itself comes last: it has the layout.
        for part in dict.fromkeys((*await self._layouts.parts(stream), stream)):
            await self.store.remove_stream(part)
        return stream not in await self.streams()

    async def run_now(self, stream: Stream, id: str) -> bool:
        return bool(await self._first(stream, id, lambda part: self.store.run_now(part, id)))

    async def rewrite(self, stream: Stream, id: str, body: bytes) -> bool:
        return bool(await self._first(stream, id, lambda part: self.store.rewrite(part, id, body)))

    async def examine(self) -> list[Finding]:
        return await self.store.examine()

    async def count_traffic(self, tallies: Sequence[TrafficCount]) -> None:
        await self.store.count_traffic(tallies)

    async def traffic(self, minutes: int) -> list[TrafficRecord]:
        return await self.store.traffic(minutes)

    # --- one message among the parts ---------------------------------------------------------------------

    async def get(self, stream: Stream, id: str) -> Record | None:
        plan = await self._layouts.recent_plan(stream)
        if plan is None:
            return await self.store.get(stream, id)
        _, record = await self._locate(plan, id)
        return record_of_whole(record)

    async def wait_for_end(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        plan = await self._layouts.recent_plan(stream)
        if plan is None:
            return await self.store.wait_for_end(stream, id, timeout)
        part, _ = await self._locate(plan, id)
        return record_of_whole(await self.store.wait_for_end(part, id, timeout))

    async def cancel(self, stream: Stream, id: str, *, ttl_us: int) -> CancelAnswer:
        async def cancel(part: Stream) -> CancelAnswer | None:
            answer = await self.store.cancel(part, id, ttl_us=ttl_us)
            return None if answer is CancelAnswer.GONE else answer

        return await self._first(stream, id, cancel) or CancelAnswer.GONE

    async def _locate(self, plan: Plan, id: str) -> tuple[Stream, Record | None]:
        """The part that knows a message. If none does, the likely part."""
        likely = plan.likely(id)
        record = await self.store.get(likely, id)
        if record is not None:
            return likely, record
        others = plan.others(id)
        records = await asyncio.gather(*(self.store.get(part, id) for part in others))
        found = [(part, each) for part, each in zip(others, records, strict=True) if each is not None]
        # A message that ended and was sent again may be in two parts. The one that has not ended counts.
        found.sort(key=lambda pair: pair[1].status.over)
        return found[0] if found else (likely, None)

    async def _first(self, stream: Stream, id: str, ask: Callable[[Stream], Awaitable[T | None]]) -> T | None:
        """The answer of the likely part, or else of another part that has one."""
        plan = await self._layouts.recent_plan(stream)
        if plan is None:
            return await ask(stream)
        answer = await ask(plan.likely(id))
        if answer:
            return answer
        answers = await asyncio.gather(*map(ask, plan.others(id)))
        return next((each for each in answers if each), None)
