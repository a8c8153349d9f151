"""Dead letters of queues and of groups: list, replay and discard them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial

import msgspec

from headrace.admin.place import Place, attempt, rank
from headrace.core.errors import ConfigurationError, RequestRefused
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import DeadReason
from headrace.core.records.answers import DeadFilter, ReplayAnswer
from headrace.core.records.record import DeadLetter, JobStatus, Page, Record, opened_letter
from headrace.core.values.checks import checked_id
from headrace.engine.app_loop.retrying import with_retries
from headrace.engine.streams import StreamRouter

from .repeatable import Counted, RepeatableSteps

#: Dead letters that one step of a store replays or discards.
STEP = 200


class Replayed(Counted):
    """How many were replayed. `duplicates` stay dead, because another job holds their unique key."""

    duplicates: tuple[str, ...] = ()


class DeadSelection(msgspec.Struct, frozen=True):
    """The dead letters that a call selects."""

    ids: Sequence[str] | None
    place: Place
    only: DeadFilter


class DeadLetterVerbs:
    def __init__(self, backend: StreamRouter) -> None:
        self._backend = backend

    async def list(self, place: Place, only: DeadFilter, cursor: str | None, limit: int) -> Page[DeadLetter]:
        begin, inner = _read_cursor(cursor)
        found: list[DeadLetter] = []
        streams = await place.streams(self._backend)
        for stream in streams:
            if begin is not None and rank(stream) < rank(begin):
                continue
            at = inner if stream == begin else None
            while len(found) < limit:
                asked = self._backend.dead_letters(stream, only=only, cursor=at, limit=limit - len(found))
                page = await (attempt(asked) if len(streams) > 1 else asked)
                if isinstance(page, RequestRefused):
                    break  # the records of this stream are damaged
                found += map(opened_letter, page)
                at = page.cursor
                if at is None:
                    break
            else:
                return Page(tuple(found), f"{stream.kind} {stream.name} {at or ''}")
        return Page(tuple(found))

    async def replay(self, chosen: DeadSelection) -> Replayed:
        steps, count = RepeatableSteps(), 0
        duplicates: list[str] = []
        async for stream, ids in self._chosen(chosen, in_order=True):
            answers = await steps.take(partial(self._backend.replay, stream, ids))
            count += answers.count(ReplayAnswer.REPLAYED)
            pairs = zip(ids, answers, strict=True)
            duplicates += [id for id, answer in pairs if answer is ReplayAnswer.DUPLICATE]
        replayed = Replayed(count)
        replayed.duplicates, replayed.uncertain = tuple(duplicates), steps.doubt is not None
        return replayed

    async def discard(self, chosen: DeadSelection) -> Counted:
        steps, count = RepeatableSteps(), 0
        async for stream, ids in self._chosen(chosen):
            count += await steps.take(partial(self._backend.discard, stream, ids))
            if stream.kind == "queue":
                await with_retries(partial(self._forget_history, stream, ids))
        return steps.counted(count)

    async def _forget_history(self, stream: Stream, ids: Sequence[str]) -> None:
        """Remove dead jobs from the history, too."""
        entries = await self._backend.find_history(stream, ids)
        dead = [entry.id for entry in entries if entry is not None and entry.status == JobStatus.DEAD]
        if dead:
            await self._backend.forget_history(stream, dead)

    async def _chosen(
        self, chosen: DeadSelection, *, in_order: bool = False
    ) -> AsyncIterator[tuple[Stream, Sequence[str]]]:
        """The chosen dead letters, stream by stream, in steps; `in_order`: as they died."""
        for stream in await with_retries(partial(chosen.place.streams, self._backend)):
            ids = chosen.ids
            if ids is None:
                # All ids first, because each step removes letters and would shift the later pages.
                ids = [id async for id in self._matching(stream, chosen.only)][::-1]
            elif in_order and len(ids) > 1:
                ids = await self._by_death(stream, ids)
            for start in range(0, len(ids), STEP):
                yield stream, ids[start : start + STEP]

    async def _by_death(self, stream: Stream, ids: Sequence[str]) -> Sequence[str]:
        """Sort ids as their dead letters died. Of two that died in the same moment, the first given is last:
        callers take ids from listings, which begin with the latest."""
        died_us: dict[str, int] = {}
        for start in range(0, len(ids), STEP):
            asked = (self._died_us(stream, id) for id in ids[start : start + STEP])
            died_us |= zip(ids[start : start + STEP], await asyncio.gather(*asked), strict=True)
        return sorted(reversed(ids), key=died_us.__getitem__)

    async def _died_us(self, stream: Stream, id: str) -> int:
        record = await with_retries(lambda: attempt(self._backend.get(stream, id)))
        return record.ended_us if isinstance(record, Record) and record.status is JobStatus.DEAD else 0

    async def _matching(self, stream: Stream, only: DeadFilter) -> AsyncIterator[str]:
        cursor: str | None = None
        while True:
            listing = partial(self._backend.dead_letters, stream, only=only, cursor=cursor, limit=STEP)
            page = await with_retries(listing)
            for letter in page:
                yield letter.id
            cursor = page.cursor
            if cursor is None:
                return


def chosen_letters(
    ids: Sequence[str] | None, place: Place, task: str | None, reason: DeadReason | str | None
) -> DeadSelection:
    if ids is None and place.everywhere and task is None and reason is None:
        raise ConfigurationError("name the dead letters: give ids=, queue=, topic=, task= or reason=")
    if ids is not None and (task is not None or reason is not None):
        raise ConfigurationError("give ids=, or task= and reason=, not both")
    return DeadSelection(None if ids is None else listed(ids), place, dead_filter(task, reason))


def dead_filter(task: str | None, reason: DeadReason | str | None) -> DeadFilter:
    return DeadFilter(task, None if reason is None else _reason(reason))


def listed(ids: Sequence[str]) -> Sequence[str]:
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise ConfigurationError(f"ids must be a list of ids, not {ids!r}")
    return [checked_id(id) for id in ids]


def _reason(reason: DeadReason | str) -> DeadReason:
    try:
        return DeadReason(reason)
    except ValueError:
        raise ConfigurationError(f"{reason!r} is not a reason: use one of {', '.join(DeadReason)}") from None


def _read_cursor(cursor: str | None) -> tuple[Stream | None, str | None]:
    """The stream to continue with, and the cursor in it. None: from its beginning."""
    if cursor is None:
        return None, None
    kind, _, rest = cursor.partition(" ")
    name, _, inner = rest.partition(" ")
    match kind:
        case "queue" | "group" if name:
            return Stream(kind, name), inner or None
    raise ConfigurationError(f"{cursor!r} is no cursor of this listing: pass one that a page gave")
