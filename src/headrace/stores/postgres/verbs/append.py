"""Appends a batch: recognises a repeated batch, decides about each message, writes the accepted ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from headrace.core.messages.message import PRODUCER_TTL_US, Batch, Message, Stream
from headrace.core.records.answers import Answer
from headrace.core.records.control import DueNotice
from headrace.core.rules.producers import OUTBOX
from headrace.stores.postgres.limits.appending import MessageRow, limited_rows
from headrace.stores.postgres.limits.lines import PostgresLines
from headrace.stores.postgres.limits.ordered_jobs import line_of
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.rows.unique_keys import LockedKeys
from headrace.stores.postgres.rows.written_changes import write_changes
from headrace.stores.postgres.session.notifications import notice_of
from headrace.stores.postgres.session.transaction import PostgresTransaction, TryAgain
from headrace.stores.postgres.statements import limit_statements, message_statements, stream_statements
from headrace.stores.sql.appending import UNLIMITED, Acceptance, accept, columns_of
from headrace.stores.sql.change_set import ChangeSet
from headrace.stores.sql.lanes import PARKED, SCHEDULED
from headrace.stores.sql.limits.line_changes import LineChanges

#: A step that adds a batch.
Adding = Callable[[PostgresTransaction, Batch], Awaitable[list[Answer]]]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Answer]).decode


# --- in one round trip ------------------------------------------------------------------------------------


def is_plain(batch: Batch) -> bool:
    """Whether only a known id could prevent that a message is taken."""
    return (
        batch.stream.kind == "queue"
        and batch.limit is None
        and all(
            [
                message.unique is None and message.constraints is None and not message.key
                for message in batch.messages
            ]
        )
    )


def may_wait(batch: Batch) -> bool:
    """Whether the append may wait for a transaction of a user: for a unique key or an id."""
    are_own = batch.producer.startswith(OUTBOX)  # a relay makes its ids
    return any([message.unique is not None or not (message.fresh or are_own) for message in batch.messages])


def plain_values(namespace: str, batch: Batch, offset_us: int, durability: str, channel: str) -> list[object]:
    """The values of `message_statements.APPEND_PLAIN`."""
    messages = batch.messages
    at_once = all([message.plain for message in messages])
    return [
        namespace,
        batch.stream.name,
        batch.producer,
        batch.number,
        PRODUCER_TTL_US,
        offset_us,
        durability,
        all([message.fresh for message in messages]),
        any([message.child for message in messages]),
        [message.id for message in messages],
        [message.task for message in messages],
        [message.body for message in messages],
        [message.priority for message in messages],
        [message.child for message in messages],
        None if at_once else [message.delay_us for message in messages],
        None if at_once else [message.due_us for message in messages],
        None if at_once else [message.lifetime_us for message in messages],
        channel,
        "" if at_once else notice_of([DueNotice(batch.stream)]),
    ]


def answers_of(batch: Batch, stored: bytes | None, refused: list[int] | None) -> list[Answer]:
    """The answers to a batch, as the producer's row has them."""
    if stored is not None:
        return _decode(stored)
    known = set(refused or ())
    return [
        Answer(message.id, "duplicate" if position in known else "accepted")
        for position, message in enumerate(batch.messages, 1)
    ]


# --- in a transaction -------------------------------------------------------------------------------------


def joins_lines(batch: Batch) -> bool:
    """Whether it has messages with constraints or an order key."""
    return any([line_of(message) is not None for message in batch.messages])


async def append(transaction: PostgresTransaction, batch: Batch) -> list[Answer]:
    """Append messages to a queue, with unique keys or a limit."""
    if not batch.messages:
        return []
    has_lines = joins_lines(batch)
    if has_lines:
        await transaction.lock_lines()
    stream = await transaction.stream(batch.stream, draining=batch.producer.startswith(OUTBOX))
    answers = await recall(transaction, stream, batch)
    if answers is None:
        if has_lines:
            await transaction.change(limit_statements.NOTE_LINES, (stream,))
        if any([message.child for message in batch.messages]):
            await transaction.change(message_statements.NOTE_CHILDREN, (stream,))
        changes = ChangeSet(transaction)
        answers, accepted, absorbed = await _decide(transaction, stream, batch, changes)
        await _write(transaction, stream, batch.stream, accepted)
        await _note_replaced(transaction, stream, changes.awaited, absorbed)
        await remember(transaction, stream, batch, answers)
    return answers


async def recall(transaction: PostgresTransaction, stream: int, batch: Batch) -> list[Answer] | None:
    """The earlier answers to this batch; None: the batch is new, and is noted now. Waits for a transaction
    that has noted it and is not committed yet."""
    values = (stream, batch.producer, batch.number, transaction.now_us, PRODUCER_TTL_US)
    if await transaction.value(message_statements.TAKE_BATCH, values):
        return None
    (row,) = await transaction.rows(message_statements.READ_ANSWERS, (stream, batch.producer))
    return answers_of(batch, *row)


async def remember(
    transaction: PostgresTransaction, stream: int, batch: Batch, answers: list[Answer]
) -> None:
    if any([answer.verdict != "accepted" for answer in answers]):
        row = (stream, batch.producer, _encode(answers))
        await transaction.change(message_statements.WRITE_ANSWERS, row)


async def _decide(
    transaction: PostgresTransaction, stream: int, batch: Batch, changes: ChangeSet
) -> Acceptance:
    messages = batch.messages
    wanted = [message.unique.key for message in messages if message.unique]
    keys = await LockedKeys.lock(transaction, batch.stream, stream, wanted)
    # After the keys: an append that waits for a key must not have the lock for which the others wait.
    room = await _room(transaction, stream, batch.limit)
    if any([message.on_duplicate == "replace" for message in messages]) and not await keys.lock_waiting():
        raise TryAgain  # an owner starts or ends in another transaction
    known = await _known_ids(transaction, stream, messages)
    decided = accept(changes, keys, known, room, messages)
    await write_changes(transaction, changes)
    await keys.write()
    return decided


async def _note_replaced(
    transaction: PostgresTransaction, stream: int, awaited: list[str], absorbed: list[Message]
) -> None:
    """Callers still wait for messages that were replaced. The ids of messages that replaced them stay known,
    so that a repeat is recognised."""
    if awaited:
        await transaction.change(message_statements.KEEP_AWAITED, (stream, awaited))
    if absorbed:
        now_us = transaction.now_us
        rows = [(message.id, message.task, now_us + message.expired_ttl_us) for message in absorbed]
        await transaction.change(message_statements.NOTE_ABSORBED, (stream, now_us, *columns(rows)))


async def _known_ids(transaction: PostgresTransaction, stream: int, messages: list[Message]) -> set[str]:
    """Which of these ids are taken. Deletes end records whose time has passed."""
    ids = [message.id for message in messages]
    await transaction.change(message_statements.FORGET_PAST_END_RECORDS, (stream, ids, transaction.now_us))
    return {id for (id,) in await transaction.rows(message_statements.FIND_IDS, (stream, ids))}


async def _room(transaction: PostgresTransaction, stream: int, limit: int | None) -> int:
    if limit is None:
        return UNLIMITED
    await transaction.rows(stream_statements.LOCK_LIMIT, (stream,))
    filled: int = await transaction.value(stream_statements.READ_FILLED, (stream,))
    return limit - filled


async def _write(
    transaction: PostgresTransaction, number: int, stream: Stream, accepted: list[Message]
) -> None:
    if not accepted:
        return
    now_us = transaction.now_us
    rows: list[MessageRow]
    if transaction.has_lines:
        rows = await limited_rows(transaction, number, accepted)
    else:
        rows = [
            (*columns_of(message, now_us), message.body, message.child, None, None) for message in accepted
        ]
    if await add(transaction, number, stream, rows) < len(rows):
        raise TryAgain  # another transaction has added one of these ids in the meantime
    if transaction.has_lines:
        await PostgresLines(transaction).follow(_joined(rows))


def _joined(rows: list[MessageRow]) -> LineChanges:
    """The lines that new messages join."""
    changes = LineChanges()
    for _, _, place, *_, constraints, _ in rows:
        if constraints is not None and place < PARKED:
            changes.moved[constraints, place] += 1
    return changes


async def add(
    transaction: PostgresTransaction, number: int, stream: Stream, rows: Sequence[MessageRow]
) -> int:
    """Add messages; returns how many. A message whose id is known is left out."""
    later = [at_us for _, _, place, at_us, *_ in rows if place == SCHEDULED]
    before_us = await transaction.next_due_us([number]) if later else None
    values = (number, transaction.now_us, *columns(rows))
    added = {id for (id,) in await transaction.rows(message_statements.ADD, values)}
    if later:
        transaction.announce_if_due_sooner(stream, before_us, min(later))
    if len(later) < len(rows):
        transaction.ready.add(stream)
    for id, _, place, *_ in rows:
        if id in added:
            transaction.count(number, place, 1)
    return len(added)
