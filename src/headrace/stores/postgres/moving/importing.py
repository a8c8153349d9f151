"""Writes the pages of a stream of another store: one statement for each kind of item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.core.messages.constraints import NO_CONSTRAINTS
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
)
from headrace.core.records.control import PauseNotice
from headrace.core.schedules.schedule_record import ScheduleRecord
from headrace.core.topics.topic import LogEntry
from headrace.stores.postgres.limits.lines import PostgresLines, numbers_of
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import (
    limit_statements,
    message_statements,
    moving_statements,
    stream_statements,
)
from headrace.stores.postgres.topics.log import open_log
from headrace.stores.sql.lanes import PARKED, RETRYING, SCHEDULED
from headrace.stores.sql.limits.line_changes import LineChanges
from headrace.stores.sql.limits.order_keys import stored_key
from headrace.stores.sql.rows.moved_rows import has_begun, place_of, times_of

#: In the column of the worker: a worker of the other store had the message.
UNKNOWN_WORKER: Final = "unknown"


async def imported(
    connection: PostgresConnection | PostgresTransaction, namespace: str, origin: Stream, move: str
) -> Imported:
    name = (namespace, origin.kind, origin.name)
    rows = await connection.rows(moving_statements.READ_IMPORT, (*name, move))
    return Imported(*rows[0]) if rows else Imported()


async def import_page(
    transaction: PostgresTransaction, stream: Stream, page: StoredPage, *, move: str, origin: Stream
) -> None:
    name = (transaction.namespace, origin.kind, origin.name)
    await transaction.rows(moving_statements.LOCK_IMPORT, name)
    before = await imported(transaction, transaction.namespace, origin, move)
    if before.place != page.after:
        return
    if any([isinstance(item, StoredMessage) and _has_line(item) for item in page.items]):
        await transaction.lock_lines()
    importing = _PostgresImport(transaction, stream, await transaction.stream(stream), part=origin != stream)
    for item in page.items:
        await importing.write(item)
    await importing.finish()
    row = (*name, move, page.next, before.count + page.count)
    await transaction.change(moving_statements.WRITE_IMPORT, row)


class _PostgresImport:
    """`part`: the page is of one part of a queue, which has no settings of its own."""

    def __init__(self, transaction: PostgresTransaction, stream: Stream, number: int, *, part: bool) -> None:
        self._transaction = transaction
        self._change = transaction.change
        self._stream = stream
        self._number = number
        self._is_part = part
        self._messages: list[StoredMessage] = []
        self._events: list[LogEntry] = []
        self._keys: list[StoredKey] = []

    async def write(self, item: Item) -> None:
        match item:
            case StoredMessage():
                self._messages.append(item)
            case LogEntry():
                self._events.append(item)
            case StoredKey():
                self._keys.append(item)
            case StoredStream() if not self._is_part:
                row = (self._number, item.lease_us, item.paused)
                await self._change(moving_statements.WRITE_SETTINGS, row)
            case StoredTopic():
                await self._topic(item)
            case StoredGroup():
                await self._group(item)
            case StoredDeferredKey():
                values = (self._number, item.key, item.number, item.passed, item.drawable)
                await self._change(moving_statements.WRITE_DEFERRED, values)
            case StoredPause():
                await self._change(stream_statements.WRITE_PAUSED, (self._number, item.paused))
                self._transaction.announce(PauseNotice(self._stream, item.paused))
            case ScheduleRecord():
                await self._schedule(item)

    async def finish(self) -> None:
        """Write what was collected, and wake the workers that wait for it."""
        if self._events:
            rows = [(e.number, e.id, e.task, e.body, e.at_us, e.expires_us, e.key) for e in self._events]
            await self._change(moving_statements.ADD_EVENTS, (self._number, *columns(rows)))
        now_us = self._transaction.now_us
        kept = [each for each in self._messages if not each.over or each.kept_until_us > now_us]
        if kept:
            await self._add(kept)
        keys = [(each.key, each.id, each.until_us) for each in self._keys if each.until_us > now_us]
        await self._take(keys)
        self._transaction.ready.add(self._stream)

    async def _topic(self, item: StoredTopic) -> None:
        log = await open_log(self._transaction, self._stream.topic)
        if log.last:
            raise conflict(self._stream, "has events already")
        rules = (item.rules.retention_us, item.rules.max_length, item.rules.strict)
        row = (self._number, item.first, item.last, item.last_us, *rules)
        await self._change(moving_statements.WRITE_TOPIC, row)

    async def _group(self, item: StoredGroup) -> None:
        topic = (await open_log(self._transaction, self._stream.topic)).stream
        ordering = item.ordering
        order = (ordering.ordered, ordering.wanted_us, ordering.unwanted_us)
        row = (self._number, topic, item.position, item.seen_us, *order, item.again)
        await self._change(moving_statements.WRITE_GROUP, row)

    async def _schedule(self, item: ScheduleRecord) -> None:
        moments = (item.last_us, item.fired_us)
        row = (self._number, item.name, *moments, item.paused, item.definition, item.timing)
        await self._change(moving_statements.ADD_SCHEDULE, row)

    async def _add(self, messages: Sequence[StoredMessage]) -> None:
        transaction, number = self._transaction, self._number
        past = (number, [each.id for each in messages], transaction.now_us)
        await self._change(message_statements.FORGET_PAST_END_RECORDS, past)
        numbers = await self._numbers(messages)
        rows = [_row(each, numbers.get(each.id)) for each in messages]
        places = {row.id: row.place for row in rows}
        values = (number, *columns(rows))
        added = {id for (id,) in await transaction.rows(moving_statements.ADD_MESSAGES, values)}
        due = [each.at_us for each in messages if places[each.id] in (SCHEDULED, RETRYING)]
        for each in messages:
            if each.id not in added and not each.over:
                raise conflict(self._stream, f"has a message with the id {each.id} already")
            if each.id in added:
                transaction.count(number, places[each.id], 1)
        held = [(each.key, each.id, None) for each in messages if each.holds_key and each.key is not None]
        held += [
            (key, each.id, None)
            for each in messages
            if each.holds_order and (key := stored_key(each.order_key)) is not None
        ]
        taken = await self._take(held)
        for key, id, _ in held:
            if key not in taken:
                raise conflict(self._stream, f"has another message that holds the unique key of {id}")
        if any([each.child for each in messages]):
            await self._change(message_statements.NOTE_CHILDREN, (number,))
        if due:
            transaction.announce_if_due_sooner(self._stream, None, min(due))
        if numbers:
            await self._change(limit_statements.NOTE_LINES, (number,))
            await PostgresLines(transaction).follow(_joined(rows))

    async def _numbers(self, messages: Sequence[StoredMessage]) -> dict[str, int]:
        """The numbers of the constraints of messages that wait in lines, or will."""
        lines = {each.id: each.constraints or NO_CONSTRAINTS for each in messages if _has_line(each)}
        if not lines:
            return {}
        numbers = await numbers_of(self._transaction, self._number, lines.values())
        return {id: numbers[line] for id, line in lines.items()}

    async def _take(self, keys: Sequence[tuple[str, str, int | None]]) -> set[str]:
        """Take keys that are free. Returns these."""
        if not keys:
            return set()
        ended = (self._number, self._transaction.now_us, [key for key, _, _ in keys])
        await self._change(moving_statements.FORGET_KEYS_THAT_ENDED, ended)
        values = (self._number, *columns(keys))
        return {key for (key,) in await self._transaction.rows(moving_statements.ADD_KEYS, values)}


def _has_line(message: StoredMessage) -> bool:
    return (message.constraints is not None or bool(message.order_key)) and not message.over


class _Row(NamedTuple):
    """The columns of `moving_statements.ADD_MESSAGES`."""

    id: str
    task: str
    place: int
    at_us: int
    since_us: int
    lane: int
    priority: int
    expires_us: int
    unique_key: str | None
    unique_until: str | None
    reason: str | None
    note: str | None
    state: bytes | None
    failure: bytes | None
    result: bytes | None
    child: bool
    begun: bool
    worker: str | None
    body: bytes | None
    constraints: int | None
    order_key: str | None


def _row(message: StoredMessage, constraints: int | None) -> _Row:
    at_us, since_us = times_of(message)
    return _Row(
        id=message.id,
        task=message.task,
        place=place_of(message, limited=constraints is not None),
        at_us=at_us,
        since_us=since_us,
        lane=message.lane + 1,
        priority=message.priority,
        expires_us=message.expires_us,
        unique_key=message.key,
        unique_until=message.until,
        reason=message.reason,
        note=message.note,
        state=message.state,
        failure=message.failure,
        result=message.result,
        child=message.child,
        begun=has_begun(message.state),
        worker=UNKNOWN_WORKER if message.handed_out else None,
        body=message.body,
        constraints=constraints,
        order_key=None if message.over else stored_key(message.order_key),
    )


def _joined(rows: Sequence[_Row]) -> LineChanges:
    """The lines that messages join."""
    changes = LineChanges()
    for row in rows:
        if row.constraints is not None and row.place < PARKED:
            changes.moved[row.constraints, row.place] += 1
    return changes
