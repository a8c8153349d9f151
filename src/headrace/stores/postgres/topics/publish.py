"""Publishes a batch: events go to the end of the log, and those that are due later wait beside it."""

from __future__ import annotations

from headrace.core.messages.message import PRODUCER_TTL_US, Batch, Message
from headrace.core.records.answers import Answer
from headrace.core.rules.producers import OUTBOX
from headrace.core.topics.topic import TRIMMED_BESIDE
from headrace.stores.postgres.rows.unique_keys import LockedKeys
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import topic_statements
from headrace.stores.postgres.verbs.append import add, recall, remember
from headrace.stores.sql.appending import UNLIMITED, accept_events, event_columns_of

from .log import lock_log, open_log, write_due
from .retention import room_for, trim

# --- in one round trip ------------------------------------------------------------------------------------


def is_plain_publication(batch: Batch) -> bool:
    """Whether all events go straight to the log."""
    return (
        batch.stream.kind == "topic"
        and batch.limit is None
        and all([not (each.delay_us or each.due_us or each.unique is not None) for each in batch.messages])
    )


def publication_values(namespace: str, batch: Batch, offset_us: int, durability: str) -> list[object]:
    """The values of `topic_statements.PUBLISH_PLAIN`."""
    messages = batch.messages
    return [
        namespace,
        batch.stream.topic,
        batch.producer,
        batch.number,
        PRODUCER_TTL_US,
        offset_us,
        durability,
        [message.id for message in messages],
        [message.task for message in messages],
        [message.key for message in messages],
        [message.body for message in messages],
        [message.lifetime_us for message in messages],
    ]


async def trim_beside(transaction: PostgresTransaction, batch: Batch) -> None:
    """Trim a little, as an append does."""
    log = await lock_log(transaction, batch.stream.topic)
    if log is not None:
        await trim(transaction, log, len(batch.messages) + TRIMMED_BESIDE)


# --- in two transactions ----------------------------------------------------------------------------------
# The first stores the events beside the log, like events that are due later. The second moves what is due
# into the log, under the topic's lock, where each event gets its number. So a transaction that stays open
# delays its own events alone: it never has the topic's lock.


async def stage(transaction: PostgresTransaction, batch: Batch) -> list[Answer]:
    """Store a batch beside the log."""
    if not batch.messages:
        return []
    stream = await transaction.stream(batch.stream, draining=batch.producer.startswith(OUTBOX))
    answers = await recall(transaction, stream, batch)
    if answers is None:
        answers, accepted = await _decide(transaction, stream, batch)
        if accepted:
            # An id that already waits there is the same event, sent again.
            now_us = transaction.now_us
            rows = [
                (*event_columns_of(message, now_us), message.body, False, None, None) for message in accepted
            ]
            await add(transaction, stream, batch.stream, rows)
        await remember(transaction, stream, batch, answers)
    return answers


async def move_staged(transaction: PostgresTransaction, batch: Batch) -> None:
    """Move the events of a batch that are not due later into the log, and trim a little."""
    now_us = transaction.now_us
    ids = [each.id for each in batch.messages if not each.delay_us and each.due_us <= now_us]
    if not ids:
        return
    log = await open_log(transaction, batch.stream.topic, draining=True)
    rows = await transaction.rows(topic_statements.LOCK_STAGED, (log.stream, ids, now_us))
    if rows:
        log = await write_due(transaction, batch.stream, log, [id for (id,) in rows])
    await trim(transaction, log, len(ids) + TRIMMED_BESIDE)


async def publish(transaction: PostgresTransaction, batch: Batch) -> list[Answer]:
    """Publish in one transaction: for a schedule that fires, and for a batch with a limit."""
    answers = await stage(transaction, batch)
    if answers:
        await move_staged(transaction, batch)
    return answers


async def _room(transaction: PostgresTransaction, batch: Batch, limit: int) -> int:
    """How many events the log takes. The topic stays locked until the commit."""
    log = await open_log(transaction, batch.stream.topic)
    await trim(transaction, log, len(batch.messages) + TRIMMED_BESIDE)
    return await room_for(transaction, await open_log(transaction, batch.stream.topic), limit)


async def _decide(
    transaction: PostgresTransaction, stream: int, batch: Batch
) -> tuple[list[Answer], list[Message]]:
    messages = batch.messages
    wanted = [message.unique.key for message in messages if message.unique]
    if not wanted and batch.limit is None:
        return [Answer(message.id) for message in messages], messages
    keys = await LockedKeys.lock(transaction, batch.stream, stream, wanted)
    # After the keys: a publication that waits for a key must not have the lock of the topic.
    room = UNLIMITED if batch.limit is None else await _room(transaction, batch, batch.limit)
    decided = accept_events(keys, messages, room)
    await keys.write()
    return decided
