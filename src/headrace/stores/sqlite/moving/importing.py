"""Writes the pages of a stream of another store."""

from __future__ import annotations

from typing import Final

from headrace.core.messages.constraints import Constraints
from headrace.core.messages.message import Stream
from headrace.core.moving.moving import (
    Imported,
    Item,
    StoredDeferredKey,
    StoredGroup,
    StoredKey,
    StoredMessage,
    StoredPage,
    StoredPause,
    StoredStream,
    StoredTopic,
    conflict,
    takes_layout,
)
from headrace.core.records.control import LayoutNotice, PauseNotice
from headrace.core.rules.layout import decode_layout
from headrace.core.schedules.schedule_record import ScheduleRecord
from headrace.core.topics.topic import LogEntry
from headrace.stores.sql.lanes import PARKED, RETRYING, SCHEDULED
from headrace.stores.sql.limits.budgets import stored_constraints
from headrace.stores.sql.limits.line_changes import LineChanges
from headrace.stores.sql.limits.order_keys import stored_key
from headrace.stores.sql.rows.moved_rows import place_of, times_of
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.limits.lines import LineTable, numbers_of
from headrace.stores.sqlite.statements import limit_statements, moving_statements, stream_statements
from headrace.stores.sqlite.threads.transaction import Transaction, new_number
from headrace.stores.sqlite.topics.log import event_of, open_log

#: In the column of the worker: no worker had the message, or one that this file does not know.
NEVER_CLAIMED: Final = 1 << 40
UNKNOWN_WORKER: Final = (1 << 47) - 1


def imported(connection: Connection, namespace: str, origin: Stream, move: str) -> Imported:
    row = connection.row(moving_statements.READ_IMPORT, (namespace, origin.kind, origin.name, move))
    return Imported(*row) if row else Imported()


def import_page(
    transaction: Transaction, stream: Stream, page: StoredPage, *, move: str, origin: Stream
) -> None:
    connection, namespace = transaction.connection, transaction.namespace
    before = imported(connection, namespace, origin, move)
    if before.place != page.after:
        return
    importing = _SqliteImport(transaction, stream)
    for item in page.items:
        importing.write(item)
    importing.finish()
    row = (namespace, origin.kind, origin.name, move, page.next, before.count + page.count)
    connection.change(moving_statements.WRITE_IMPORT, row)


class _SqliteImport:
    def __init__(self, transaction: Transaction, stream: Stream) -> None:
        self._transaction = transaction
        self._change = transaction.connection.change
        self._stream = stream
        self._number = transaction.stream(stream).number
        self._due: list[int] = []
        self._has_children = False
        self._lines = LineChanges()
        self._numbers: dict[Constraints, int] = {}

    def write(self, item: Item) -> None:
        match item:
            case StoredMessage():
                self._message(item)
            case LogEntry():
                self._event(item)
            case StoredStream():
                self._settings(item)
            case StoredTopic():
                self._topic(item)
            case StoredGroup():
                self._group(item)
            case StoredDeferredKey():
                row = (self._number, item.key, item.number, item.passed, int(item.drawable))
                self._change(moving_statements.WRITE_DEFERRED, row)
            case StoredKey():
                self._key(item.key, item.id, item.until_us)
            case StoredPause():
                self._change(moving_statements.WRITE_PAUSED, (self._number, int(item.paused)))
                self._transaction.announce(PauseNotice(self._stream, item.paused))
            case ScheduleRecord():
                self._schedule(item)

    def finish(self) -> None:
        """Wake the workers that wait for what came."""
        self._transaction.ready.add(self._stream)
        if self._has_children:
            self._change(stream_statements.NOTE_CHILDREN, (self._number,))
        if self._numbers:
            self._change(limit_statements.NOTE_LINES, (self._number,))
        LineTable(self._transaction).follow(self._lines)
        if self._due:
            self._transaction.announce_if_due_sooner(self._stream, None, min(self._due))

    def _settings(self, item: StoredStream) -> None:
        row = (self._number, item.lease_us, int(item.paused))
        self._change(moving_statements.WRITE_SETTINGS, row)
        if item.layout is None:
            return
        stored = self._transaction.connection.value(moving_statements.READ_LAYOUT, (self._number,))
        if takes_layout(self._stream, stored, item.layout):
            sealed = int(decode_layout(item.layout).sealed)
            self._change(moving_statements.WRITE_LAYOUT, (self._number, item.layout, sealed))
            self._transaction.announce(LayoutNotice(self._stream))

    def _topic(self, item: StoredTopic) -> None:
        log = open_log(self._transaction, self._stream.topic)
        if log.last:
            raise conflict(self._stream, "has events already")
        rules = (item.rules.retention_us, item.rules.max_length, int(item.rules.strict))
        row = (self._number, item.first, item.last, item.last_us, *rules)
        self._change(moving_statements.WRITE_TOPIC, row)

    def _group(self, item: StoredGroup) -> None:
        topic = open_log(self._transaction, self._stream.topic).stream
        ordering = item.ordering
        order = (int(ordering.ordered), ordering.wanted_us, ordering.unwanted_us)
        row = (self._number, topic, item.position, item.seen_us, *order, item.again)
        self._change(moving_statements.WRITE_GROUP, row)

    def _event(self, item: LogEntry) -> None:
        key = event_of(self._number, item.number)
        row = (key, self._number, item.at_us, item.expires_us, item.id, item.task, item.key, item.body)
        self._change(moving_statements.ADD_EVENT, row)

    def _schedule(self, item: ScheduleRecord) -> None:
        moments = (item.last_us, item.fired_us)
        row = (self._number, item.name, *moments, int(item.paused), item.definition, item.timing)
        self._change(moving_statements.ADD_SCHEDULE, row)

    def _message(self, item: StoredMessage) -> None:
        now_us = self._transaction.now_us
        if item.over and item.kept_until_us <= now_us:
            return
        self._change(moving_statements.FORGET_PAST, (self._number, item.id, now_us))
        place = place_of(item, limited=item.constraints is not None)
        constraints = self._constraints(item)
        worker = UNKNOWN_WORKER if item.handed_out else NEVER_CLAIMED
        row = (
            *(self._number, place, *times_of(item), new_number(), worker, item.lane + 1, item.priority),
            *(item.expires_us, item.id, item.task, item.key, item.until, item.reason, item.note),
            *(item.state, item.failure, item.result, int(item.child), item.body),
            *(constraints, stored_key(item.order_key)),
        )
        if not self._change(moving_statements.ADD_MESSAGE, row):
            if item.over:
                return
            raise conflict(self._stream, f"has a message with the id {item.id} already")
        if item.key is not None and item.holds_key:
            self._key(item.key, item.id, None)
        if item.holds_order and (order_key := stored_key(item.order_key)):
            self._key(order_key, item.id, None)
        if constraints is not None and place < PARKED:
            self._lines.moved[constraints, place] += 1
        self._transaction.count(self._number, place, 1)
        self._has_children = self._has_children or item.child
        if place in (SCHEDULED, RETRYING):
            self._due.append(item.at_us)

    def _constraints(self, item: StoredMessage) -> int | None:
        """The number of the message's constraints."""
        constraints = item.constraints
        if constraints is not None and constraints not in self._numbers:
            stored = stored_constraints(constraints)
            self._numbers[constraints] = numbers_of(self._transaction, self._number, [stored])[stored]
        return None if constraints is None else self._numbers[constraints]

    def _key(self, key: str, id: str, until_us: int | None) -> None:
        now_us = self._transaction.now_us
        if until_us is not None and until_us <= now_us:
            return
        self._change(moving_statements.FORGET_KEY_THAT_ENDED, (self._number, key, now_us))
        added = self._change(moving_statements.ADD_KEY, (self._number, key, id, until_us))
        if not added and until_us is None:
            raise conflict(self._stream, f"has another message that holds the unique key of {id}")
