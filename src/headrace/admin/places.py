"""Which queues and groups a verb is about, and where among them a message is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

import msgspec

from headrace.core.errors import ConfigurationError, RequestRefused
from headrace.core.message import Stream, group_stream
from headrace.core.names import found_name
from headrace.core.record import JobStatus, Record
from headrace.engine.streams import StreamRouter

T = TypeVar("T")


class Place(msgspec.Struct, frozen=True):
    """A queue, a group of a topic, all groups of a topic, or everywhere."""

    queue: str | None = None
    topic: str | None = None
    group: str | None = None

    @property
    def everywhere(self) -> bool:
        return self.queue is None and self.topic is None

    async def streams(self, backend: StreamRouter) -> list[Stream]:
        """Its streams: queues first, then groups, both by name."""
        if self.queue is not None:
            return [Stream("queue", self.queue)]
        if self.topic is not None and self.group is not None:
            return [group_stream(self.topic, self.group)]
        kinds = ("queue", "group") if self.topic is None else ("group",)
        known = [each for each in await backend.streams() if each.kind in kinds]
        return sorted((each for each in known if self.topic in (None, each.topic)), key=rank)

    async def find(self, backend: StreamRouter, id: str) -> list[Record]:
        """All that is known of an id. A job is in one queue. An event may be in several groups at once: where
        it is dead comes first, since that is most often what somebody looks for."""
        streams = await self.streams(backend)
        # Most ids are those of jobs, and there may be many groups.
        for kind in ("queue", "group"):
            found = await _look(backend, [each for each in streams if each.kind == kind], id)
            if found:
                return sorted(found, key=lambda record: record.status is not JobStatus.DEAD)
        return []


def place(queue: str | None, topic: str | None, group: str | None) -> Place:
    """A place, checked."""
    if group is not None and topic is None:
        raise ConfigurationError("group= needs topic= beside it: groups belong to a topic")
    if queue is not None and topic is not None:
        raise ConfigurationError("give queue= or topic=, not both")
    return Place(
        None if queue is None else found_name("queue", queue),
        None if topic is None else found_name("topic", topic),
        None if group is None else found_name("group", group),
    )


def rank(stream: Stream) -> tuple[bool, str]:
    """By which streams are listed."""
    return stream.kind != "queue", stream.name


async def attempt(asked: Awaitable[T]) -> T | RequestRefused:
    """What is asked of one stream; an error as a value where somebody has damaged it."""
    try:
        return await asked
    except RequestRefused as error:
        return error


def undamaged(answers: Iterable[T | RequestRefused]) -> list[T]:
    """Those of the streams that nobody has damaged (the doctor tells of the others); where all are, it is an
    error."""
    found: list[T] = []
    refused: RequestRefused | None = None
    for each in answers:
        if isinstance(each, RequestRefused):
            refused = each
        else:
            found.append(each)
    if refused is not None and not found:
        raise refused
    return found


async def _look(backend: StreamRouter, streams: Sequence[Stream], id: str) -> list[Record]:
    answers = await asyncio.gather(*(attempt(backend.look(stream, id)) for stream in streams))
    return [record for record in undamaged(answers) if record is not None]
