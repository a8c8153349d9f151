"""Reads the pages of a stream that was set aside.

A place is the name of a section and where to go on in it: `events 17`, `messages 5 1700000000000000 23`,
`keys given:a`. A stream has its settings first, then its sections in this order.
"""

from __future__ import annotations

import msgspec

from headrace.core.messages.constraints import NO_CONSTRAINTS
from headrace.core.messages.message import Stream
from headrace.core.moving.moving import (
    END,
    PAGE_BYTES,
    PAGE_ITEMS,
    Item,
    StoredDeferredKey,
    StoredGroup,
    StoredKey,
    StoredMessage,
    StoredPage,
    StoredPause,
    StoredStream,
    StoredTopic,
)
from headrace.core.schedules.schedule_record import ScheduleRecord
from headrace.core.topics.topic import LogEntry, Ordering, TopicRules
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.statements import moving_statements
from headrace.stores.sql.rows.moved_rows import ASIDE, MovedRow

#: Where the messages begin: before every place.
MESSAGES = "messages -100 0 0"
EVENTS = "events 0"
KEYS = "keys "


class PostgresAsideStream:
    """A stream that was set aside."""

    def __init__(self, connection: PostgresConnection, stream: Stream, number: int, *, now_us: int) -> None:
        self._rows = connection.rows
        self._stream = stream
        self._number = number
        self._now_us = now_us
        self._lease_us: int | None = None
        self._paused = False

    @classmethod
    async def find(
        cls, connection: PostgresConnection, namespace: str, stream: Stream, now_us: int
    ) -> PostgresAsideStream:
        name = (namespace + ASIDE, stream.kind, stream.name)
        [(number, lease_us, paused)] = await connection.rows(moving_statements.READ_STREAM, name)
        found = cls(connection, stream, number, now_us=now_us)
        found._lease_us, found._paused = lease_us, paused
        return found

    async def page(self, place: str) -> StoredPage:
        section, _, within = place.partition(" ")
        match section:
            case "events":
                items, following = await self._events(int(within))
            case "messages":
                items, following = await self._messages(*map(int, within.split(" ")))
            case "keys":
                items, following = await self._keys(within)
            case _:
                items, following = await self._first()
        return StoredPage(tuple(items), place, following)

    async def _first(self) -> tuple[list[Item], str]:
        is_group = self._stream.kind == "group"
        items: list[Item] = [StoredStream(self._lease_us, self._paused or is_group)]
        items += await self._schedules()
        if self._stream.kind == "topic":
            return [*items, *await self._topic()], EVENTS
        return [*items, *await self._group()], MESSAGES

    async def _schedules(self) -> list[ScheduleRecord]:
        rows = await self._rows(moving_statements.LIST_SCHEDULES, (self._number,))
        return [ScheduleRecord(self._stream, *row) for row in rows]

    async def _topic(self) -> list[Item]:
        rows = await self._rows(moving_statements.READ_TOPIC, (self._number,))
        return [
            StoredTopic(TopicRules(retention_us, max_length, strict), first, last, last_us)
            for first, last, last_us, retention_us, max_length, strict in rows
        ]

    async def _group(self) -> list[Item]:
        rows = await self._rows(moving_statements.READ_GROUP, (self._number,))
        items: list[Item] = [
            StoredGroup(position, seen_us, Ordering(ordered, wanted_us, unwanted_us), again)
            for position, seen_us, ordered, wanted_us, unwanted_us, again in rows
        ]
        deferred = await self._rows(moving_statements.LIST_DEFERRED, (self._number,))
        return [*items, *(StoredDeferredKey(*row) for row in deferred)]

    async def _events(self, after: int) -> tuple[list[Item], str]:
        rows = await self._rows(moving_statements.READ_EVENTS, (self._number, after, PAGE_ITEMS, PAGE_BYTES))
        return [LogEntry(*row) for row in rows], f"events {rows[-1][0]}" if rows else MESSAGES

    async def _messages(self, place: int, at_us: int, seq: int) -> tuple[list[Item], str]:
        topics = await self._rows(moving_statements.FIND_TOPIC_OF, (self._number,))
        topic = topics[0][0] if topics else None
        bounds = (self._number, place, at_us, seq, PAGE_ITEMS, PAGE_BYTES, topic)
        rows = [MovedRow(*row) for row in await self._rows(moving_statements.READ_MESSAGES, bounds)]
        if not rows:
            return [], KEYS
        last = rows[-1]
        return [_message(row) for row in rows], f"messages {last.place} {last.at_us} {last.seq}"

    async def _keys(self, after: str) -> tuple[list[Item], str]:
        bounds = (self._number, after, PAGE_ITEMS, self._now_us)
        rows = await self._rows(moving_statements.READ_KEYS, bounds)
        if rows:
            return [StoredKey(*row) for row in rows], f"keys {rows[-1][0]}"
        return [StoredPause(self._paused)] if self._stream.kind == "group" else [], END


def _message(row: MovedRow) -> StoredMessage:
    message = row.message
    if message.constraints == NO_CONSTRAINTS:
        return msgspec.structs.replace(message, constraints=None)
    return message
