"""Reads the pages of a stream that was set aside.

A place is the name of a section and where to go on in it: `events 17`, `messages 5 1700000000000000 23`,
`keys given:a`. A stream has its settings first, then its sections in this order.
"""

from __future__ import annotations

from headrace.core.messages.message import Stream
from headrace.core.moving.moving import (
    END,
    PAGE_BYTES,
    PAGE_ITEMS,
    Item,
    StoredDeferredKey,
    StoredGroup,
    StoredKey,
    StoredPage,
    StoredPause,
    StoredStream,
    StoredTopic,
)
from headrace.core.schedules.schedule_record import ScheduleRecord
from headrace.core.topics.topic import LogEntry, Ordering, TopicRules
from headrace.stores.sql.rows.moved_rows import ASIDE, MovedRow
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import moving_statements
from headrace.stores.sqlite.topics.log import event_of, number_of

#: Where the messages begin: before every place.
MESSAGES = "messages -100 0 0"
EVENTS = "events 0"
KEYS = "keys "


class SqliteAsideStream:
    """A stream that was set aside, in the snapshot of one page."""

    def __init__(self, connection: Connection, namespace: str, stream: Stream, now_us: int) -> None:
        self._connection = connection
        self._stream = stream
        self._now_us = now_us
        name = (namespace + ASIDE, stream.kind, stream.name)
        self._number, *self._settings = connection.row(moving_statements.READ_STREAM, name)

    def page(self, place: str) -> StoredPage:
        section, _, within = place.partition(" ")
        match section:
            case "events":
                items, following = self._events(int(within))
            case "messages":
                items, following = self._messages(*map(int, within.split(" ")))
            case "keys":
                items, following = self._keys(within)
            case _:
                items, following = self._first()
        return StoredPage(tuple(items), place, following)

    def _first(self) -> tuple[list[Item], str]:
        lease_us, paused, layout = self._settings
        is_group = self._stream.kind == "group"
        items: list[Item] = [StoredStream(lease_us, bool(paused) or is_group, layout), *self._schedules()]
        if self._stream.kind == "topic":
            return [*items, *self._topic()], EVENTS
        return [*items, *self._group()], MESSAGES

    def _schedules(self) -> list[ScheduleRecord]:
        rows = self._connection.rows(moving_statements.LIST_SCHEDULES, (self._number,))
        return [
            ScheduleRecord(self._stream, name, last_us, fired_us, bool(paused), definition, timing)
            for name, last_us, fired_us, paused, definition, timing in rows
        ]

    def _topic(self) -> list[Item]:
        row = self._connection.row(moving_statements.READ_TOPIC, (self._number,))
        if row is None:
            return []  # only its parts are used
        first, last, last_us, retention_us, max_length, strict = row
        return [StoredTopic(TopicRules(retention_us, max_length, bool(strict)), first, last, last_us)]

    def _group(self) -> list[Item]:
        row = self._connection.row(moving_statements.READ_GROUP, (self._number,))
        if row is None:
            return []
        position, seen_us, ordered, wanted_us, unwanted_us, again = row
        group = StoredGroup(position, seen_us, Ordering(bool(ordered), wanted_us, unwanted_us), again)
        deferred = self._connection.rows(moving_statements.LIST_DEFERRED, (self._number,))
        return [group, *(_deferred(*row) for row in deferred)]

    def _events(self, after: int) -> tuple[list[Item], str]:
        bounds = (self._number, event_of(self._number, after), PAGE_ITEMS, PAGE_BYTES)
        rows = self._connection.rows(moving_statements.READ_EVENTS, bounds)
        items: list[Item] = [
            LogEntry(number_of(event), id, task, body, at_us, expires_us, key)
            for event, at_us, expires_us, id, task, key, body in rows
        ]
        return items, f"events {number_of(rows[-1][0])}" if rows else MESSAGES

    def _messages(self, place: int, at_us: int, seq: int) -> tuple[list[Item], str]:
        topic = self._connection.value(moving_statements.FIND_TOPIC_OF, (self._number,))
        bounds = (self._number, place, at_us, seq, PAGE_ITEMS, PAGE_BYTES, topic)
        rows = self._connection.rows(moving_statements.READ_MESSAGES, bounds)
        if not rows:
            return [], KEYS
        last, place, at_us, *_ = rows[-1]
        return [MovedRow(*row).message for row in rows], f"messages {place} {at_us} {last}"

    def _keys(self, after: str) -> tuple[list[Item], str]:
        bounds = (self._number, after, PAGE_ITEMS, self._now_us)
        rows = self._connection.rows(moving_statements.READ_KEYS, bounds)
        if rows:
            return [StoredKey(*row) for row in rows], f"keys {rows[-1][0]}"
        paused = bool(self._settings[1])
        return [StoredPause(paused)] if self._stream.kind == "group" else [], END


def _deferred(key: str, number: int, passed: int, drawable: int) -> StoredDeferredKey:
    return StoredDeferredKey(key, number, passed, bool(drawable))
