"""Finds the position in the log at which a group or a reader starts."""

from __future__ import annotations

from headrace.core.messages.ids import made_us
from headrace.core.topics.topic import Start, unknown_event
from headrace.stores.redis.scripts import FIND_EVENT, FIND_POSITION
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import StreamScripts

#: Limits of one step of a search: events, and bytes of bodies.
ITEMS, BYTES = 1000, 1 << 20

#: Microseconds by which the clock that made an id may be ahead of the store's clock.
SKEW = 60_000_000


async def position_of(store: RedisServer, topic: StreamScripts, start: Start) -> int:
    """The position after which reading begins for this start; `UnknownEvent` when there is no such event."""
    if start.at == "event":
        return await number_of(store, topic, start.event) - 1
    position: int = await store.run(topic.call(FIND_POSITION, start.at, start.time_us))
    return position


async def number_of(store: RedisServer, topic: StreamScripts, id: str) -> int:
    """The number of an event. An event is written after its id was made, so the search begins at that time.
    Earlier events are searched last, since clocks may differ and an id may be any text."""
    begin: int = 1 + await store.run(topic.call(FIND_POSITION, "time", max(0, made_us(id) - SKEW)))
    number = await _search(store, topic, id, begin, None) or await _search(store, topic, id, 1, begin)
    if not number:
        raise unknown_event(id)
    return number


async def _search(store: RedisServer, topic: StreamScripts, id: str, begin: int, end: int | None) -> int:
    number, following = 0, begin
    while not number and following and (end is None or following < end):
        number, following = await store.run(topic.call(FIND_EVENT, id, following, ITEMS, BYTES))
    return number
