"""Follows a topic for people to read. It has its own position in the log and does not affect groups."""

from __future__ import annotations

from collections import deque
from typing import Self

from headrace.core.encoding.codec import AppCodec
from headrace.core.errors import AppClosed, ConfigurationError, no_such_group
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Stream
from headrace.core.topics.position import Position
from headrace.core.topics.start import StartAt, start_of
from headrace.core.topics.topic import Start
from headrace.core.values.names import checked_name
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.streams import StreamRouter

from .contents import EventInfo, read_event

#: Seconds that one read waits for events.
BLOCK = 2.0

#: Events of one read.
PAGE = 100


class Tail:
    """`async for event in app.admin.tail("orders")`: one event after the other, until `stop()` or until the
    app closes. Without `follow` it ends after the last event."""

    def __init__(
        self,
        app_loop: AppLoop,
        topic: str,
        start: Start,
        *,
        group: str | None,
        follow: bool,
        codec: AppCodec | None,
    ) -> None:
        self._app_loop = app_loop
        self._topic = Stream("topic", topic)
        self._position: Position | Start = start
        self._group = group
        self._follow = follow
        self._codec = codec
        self._consumer = f"tail:{new_id()}"
        self._read: deque[EventInfo] = deque()
        self._ended = False
        self._backend: StreamRouter | None = None  # that of the event loop that the last read was on

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventInfo:
        while not self._read:
            if self._ended:
                raise StopAsyncIteration
            await self._more()
        return self._read.popleft()

    async def stop(self) -> None:
        """End it. A read that waits for the next event ends, too."""
        self._ended = True
        if self._backend is not None:
            self._backend.wake(self._consumer)

    async def _more(self) -> None:
        try:
            await self._app_loop.repeat(self._look, waits=True)
        except AppClosed:
            self._ended = True

    async def _look(self) -> None:
        if self._group is not None:
            self._position, self._group = await self._position_of(self._group), None
        # Closing the app ends a tail that waits. Otherwise the tail would open the store again.
        self._app_loop.register_user(self.stop)
        self._backend = self._app_loop.backend
        try:
            reading = await self._backend.read(
                self._topic,
                self._position,
                consumer=self._consumer,
                limit=PAGE,
                wait=BLOCK if self._follow else 0.0,
            )
        finally:
            self._app_loop.unregister_user(self.stop)
        self._position = reading.position
        self._read.extend(read_event(entry, self._topic.name, self._codec) for entry in reading.entries)
        if not self._follow and not reading.entries:
            self._ended = True

    async def _position_of(self, group: str) -> Position | Start:
        """The first event that the group has not begun to handle. The group may have drawn it already, so
        that the group's own position is later."""
        for topic in await self._app_loop.backend.topics([self._topic.name]):
            for each in topic.groups:
                if each.stream.group == group:
                    if each.oldest_us:
                        return Start("time", time_us=each.oldest_us)
                    return await self._app_loop.backend.position_of(each.stream)
        raise no_such_group(self._topic.name, group)


def tail_of(
    app_loop: AppLoop,
    topic: str,
    *,
    since: StartAt | None,
    group: str | None,
    follow: bool,
    codec: AppCodec | None,
) -> Tail:
    """A tail from the arguments of a user."""
    if since is not None and group is not None:
        raise ConfigurationError("give since= or group=, not both: a group says where to begin")
    return Tail(
        app_loop,
        checked_name("topic", topic),
        start_of("new" if since is None else since, "since"),
        group=None if group is None else checked_name("group", group),
        follow=follow,
        codec=codec,
    )
