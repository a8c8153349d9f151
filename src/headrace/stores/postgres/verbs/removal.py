"""Removes a stream: a group with all its messages, a queue or topic only when it is empty."""

from __future__ import annotations

from headrace.core.messages.message import Stream
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import stream_statements
from headrace.stores.postgres.topics import groups


async def remove_stream(transaction: PostgresTransaction, stream: Stream) -> bool:
    name = (transaction.namespace, stream.kind, stream.name)
    await transaction.rows(stream_statements.LOCK_FOR_REMOVAL, name)
    if await groups.find_group(transaction, transaction.namespace, stream) is not None:
        return await groups.remove(transaction, stream)
    number = await transaction.find(stream)
    if number is None or await transaction.value(stream_statements.IS_IN_USE, (number,)):
        return False
    established = await transaction.value(stream_statements.IS_ESTABLISHED, (number,))
    for statement in stream_statements.FORGET:
        await transaction.change(statement, (number,))
    return stream.kind != "group" and bool(established)
