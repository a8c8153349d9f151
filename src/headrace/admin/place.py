"""Where jobs and events are: a queue, a group, all groups of a topic, or everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.core.errors import ConfigurationError, RequestRefused
from headrace.core.messages.message import GIVEN_KEY, Stream, group_stream
from headrace.core.records.answers import Wanted
from headrace.core.records.job_info import JobInfo
from headrace.core.records.record import DeadLetter, JobStatus, Record
from headrace.core.values.checks import checked_id
from headrace.core.values.names import checked_name, found_name
from headrace.engine.streams import StreamRouter

T = TypeVar("T")


class Place(msgspec.Struct, frozen=True):
    """A queue, a group of a topic, all groups of a topic, or everywhere."""

    queue: str | None = None
    topic: str | None = None
    group: str | None = None

    def __str__(self) -> str:
        return self.queue or "/".join(filter(None, (self.topic, self.group)))

    @property
    def everywhere(self) -> bool:
        return self.queue is None and self.topic is None

    @property
    def options(self) -> dict[str, Any]:
        """The place as keyword arguments of the admin's methods; what is not given is left out."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}

    @property
    def words(self) -> str:
        """The place as a sentence names it."""
        if self.topic is None:
            return f"queue {self.queue}"
        return f"topic {self.topic}" if self.group is None else f"group {self.group} of {self.topic}"

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
        """The records of an id. A job is in one queue. An event may be in several groups at once: the groups
        in which it is dead come first, because users look for dead events most often."""
        checked_id(id)
        streams = await self.streams(backend)
        # Most ids belong to jobs, and there may be many groups.
        for kind in ("queue", "group"):
            found = await _look(backend, [each for each in streams if each.kind == kind], id)
            if found:
                return sorted(found, key=lambda record: record.status is not JobStatus.DEAD)
        return []

    async def holder(self, backend: StreamRouter, key: str) -> Record | None:
        """The job that holds a unique key now, in the queues of the place."""
        for stream in await self.streams(backend):
            if stream.kind == "queue":
                wanted = [Wanted(key=stored) for stored in (GIVEN_KEY + key, key)]
                for id in await backend.holders(stream, wanted):
                    found = await backend.get(stream, id) if id else None
                    if found is not None:
                        return found
        return None


def checked_place(queue: str | None, topic: str | None, group: str | None) -> Place:
    """A place from the arguments of a user."""
    if group is not None and topic is None:
        raise ConfigurationError("group= needs topic= beside it: groups belong to a topic")
    if queue is not None and topic is not None:
        raise ConfigurationError("give queue= or topic=, not both")
    return Place(
        None if queue is None else found_name("queue", queue),
        None if topic is None else found_name("topic", topic),
        None if group is None else found_name("group", group),
    )


def queue_stream(name: str) -> Stream:
    """The stream of a queue that a user names."""
    return Stream("queue", checked_name("queue", name))


def checked_group(topic: str, group: str) -> Stream:
    """The stream of a group that a user names."""
    return group_stream(checked_name("topic", topic), checked_name("group", group))


def one_stream(where: Place) -> Stream:
    """The one stream of a place; the queue `default` when it names nothing."""
    if where.topic is None:
        return Stream("queue", where.queue or "default")
    if where.group is None:
        raise ConfigurationError("give group=, too: each group of a topic has its own events")
    return group_stream(where.topic, where.group)


def place_of(found: JobInfo | DeadLetter) -> Place:
    return Place(None if found.topic else found.queue, found.topic, found.group)


def place_of_stream(stream: Stream) -> Place:
    if stream.kind == "queue":
        return Place(stream.name)
    return Place(None, stream.topic, stream.group)


def rank(stream: Stream) -> tuple[bool, str]:
    """The sort key of listings: queues before groups, each by name."""
    return stream.kind != "queue", stream.name


async def attempt(asked: Awaitable[T]) -> T | RequestRefused:
    """The answer for one stream. A stream whose records are damaged answers its error as a value."""
    try:
        return await asked
    except RequestRefused as error:
        return error


def undamaged(answers: Iterable[T | RequestRefused]) -> list[T]:
    """The answers of the streams that are not damaged. The doctor names the damaged ones. It is an error when
    all streams are damaged."""
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
    async def look_in(stream: Stream) -> Record | RequestRefused | None:
        return await attempt(backend.get(stream, id))

    answers = await asyncio.gather(*map(look_in, streams))
    found = [record for record in undamaged(answers) if record is not None]
    if found:
        return [await backend.completed(record.stream, id, record) or record for record in found]
    queues = [stream for stream in streams if stream.kind == "queue"]
    ended = await asyncio.gather(*(backend.completed(stream, id, None) for stream in queues))
    return [record for record in ended if record is not None]
