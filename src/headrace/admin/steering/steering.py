"""Changes queues, groups, jobs and events, on the app's loop. A step whose answer was lost is repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from headrace.admin.place import Place
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.errors import ConfigurationError, InvalidPayload, UnverifiedPayload, no_such_group
from headrace.core.messages.message import Envelope, Stream, decode_envelope, encode_envelope
from headrace.core.records.answers import CancelAnswer, ReplayAnswer
from headrace.core.records.record import JobStatus, Record
from headrace.engine.app_loop.retrying import with_retries
from headrace.engine.streams import StreamRouter

from .repeatable import Counted, RepeatableSteps

#: `(id, envelope, args, kwargs)` → the envelope with other arguments.
EditEnvelope = Callable[[str, Envelope, Sequence[Any], Mapping[str, Any]], Envelope]

#: Messages that one step of a store ends.
STEP = 200


class Steering:
    """`ttl_us` is how long the store remembers a job that was cancelled."""

    def __init__(self, store: StreamRouter, ttl_us: int) -> None:
        self._store = store
        self._ttl_us = ttl_us

    async def purge(self, stream: Stream) -> Counted:
        steps, total = RepeatableSteps(), 0
        purge = partial(self._store.purge, stream, ttl_us=self._ttl_us, limit=STEP)
        while ended := await steps.take(purge):
            total += ended
        return steps.counted(total)

    async def pause_group(self, stream: Stream, *, paused: bool) -> None:
        if not await self._is_known(stream):
            raise no_such_group(stream.topic, stream.group)
        await self._store.pause(stream, paused=paused)

    async def remove_group(self, stream: Stream) -> bool:
        steps = RepeatableSteps()
        if not await steps.take(lambda: self._is_known(stream)):
            return False
        removed = await steps.take(lambda: self._store.remove_stream(stream))
        return removed or steps.doubt is not None  # it was there, and is not any more

    async def _is_known(self, group: Stream) -> bool:
        topics = await self._store.topics([group.topic])
        return any(each.stream == group for topic in topics for each in topic.groups)

    async def cancel(self, ids: Sequence[str], where: Place) -> int:
        count = 0
        for id in ids:
            found = await self._find(where, id)
            count += any([await self._cancelled(record) for record in found])
        return count

    async def _cancelled(self, record: Record) -> bool:
        steps, stream, id = RepeatableSteps(), record.stream, record.id
        answer = await steps.take(lambda: self._store.cancel(stream, id, ttl_us=self._ttl_us))
        if answer is CancelAnswer.GONE and steps.doubt and not record.status.over:
            now = await steps.take(lambda: self._store.get(stream, id))
            return now is not None and now.status is JobStatus.CANCELLED
        return answer is not CancelAnswer.GONE

    async def retry_now(self, id: str, where: Place) -> bool:
        return any([await self._retried(record) for record in await self._find(where, id)])

    async def _retried(self, record: Record) -> bool:
        """Whether this job was made to run now. When an answer was lost, a job that was dead or not due, and
        is not any more, counts as retried."""
        steps, stream, id = RepeatableSteps(), record.stream, record.id
        if record.status is JobStatus.DEAD:
            [answer] = await steps.take(lambda: self._store.replay(stream, [id]))
            gone = answer is ReplayAnswer.GONE
            return answer is ReplayAnswer.REPLAYED or (gone and steps.doubt is not None)
        made_due = await steps.take(lambda: self._store.run_now(stream, id))
        was_waiting = record.status in (JobStatus.SCHEDULED, JobStatus.RETRYING)
        return made_due or (was_waiting and steps.doubt is not None)

    async def edit(self, id: str, where: Place, edited: Callable[[Record], bytes]) -> bool:
        """Replace the body of a message by what `edited` makes of its record."""
        found = await self._find(where, id)
        if not found or found[0].body is None or found[0].status is JobStatus.SUCCEEDED:
            return False
        record = found[0]
        if record.stream.kind == "group":
            raise ConfigurationError(
                f"{id} is an event, and events cannot be edited: publish a corrected one and discard this one"
            )
        steps, body = RepeatableSteps(), edited(record)
        rewritten = await steps.take(lambda: self._store.rewrite(record.stream, id, body))
        if not rewritten and steps.doubt is not None:
            raise steps.doubt  # it runs already, with the new arguments or with the old ones
        return rewritten

    async def _find(self, where: Place, id: str) -> list[Record]:
        return await with_retries(lambda: where.find(self._store, id))


def edited_body(edit: EditEnvelope, args: Sequence[Any], kwargs: Mapping[str, Any], record: Record) -> bytes:
    """The body of a job with other arguments."""
    try:
        return encode_envelope(edit(record.id, decode_envelope(record.body or b""), args, kwargs))
    except (*DECODE_ERRORS, UnverifiedPayload) as error:
        raise InvalidPayload(
            f"job {record.id} cannot be edited: its message cannot be read ({error})"
        ) from error


async def refuse_ordered_split(store: StreamRouter, stream: Stream) -> None:
    """Refuse to split a queue of ordered jobs while it holds some."""
    counts = await store.counts(stream)
    if counts.queued or counts.running or counts.scheduled or counts.retrying:
        raise ConfigurationError(
            f"queue {stream.name!r} has ordered jobs and is not empty: jobs of one key would run at "
            "the same time; stop its producers, and split it when its jobs are over"
        )
