"""The rows of new messages that have constraints or an order key."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.messages.message import Message
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.topics.key_order import next_in_line_us
from headrace.stores.sql.appending import MessageColumns, columns_of
from headrace.stores.sql.lanes import LIMITED, PARKED, SCHEDULED
from headrace.stores.sql.limits.order_keys import stored_key

from .lines import numbers_of
from .ordered_jobs import let_in, line_of

#: What `message_statements.ADD` needs of a message: its columns, its body, child work, the number of its
#: constraints, its order key.
MessageRow = tuple[*MessageColumns, bytes, bool, int | None, str | None]


async def limited_rows(
    transaction: PostgresTransaction, stream: int, messages: Sequence[Message]
) -> list[MessageRow]:
    """Jobs take their keys. Those whose key another job holds are parked."""
    lines = [line_of(message) for message in messages]
    numbers = await numbers_of(transaction, stream, [line for line in lines if line is not None])
    new = [columns_of(message, transaction.now_us) for message in messages]
    wanted = [
        (None if columns[2] == SCHEDULED else stored_key(message.key), message.id)
        for message, columns in zip(messages, new, strict=True)
    ]
    answers = await let_in(transaction, stream, wanted)
    parked_us = 0 if all(answers) else await next_in_line_us(transaction, stream)
    rows: list[MessageRow] = []
    for message, line, columns, is_in in zip(messages, lines, new, answers, strict=True):
        place, at_us = columns[2:4]
        if not is_in:
            place, at_us = PARKED, parked_us
            parked_us += 1
        elif line is not None and message.constraints is None and place != SCHEDULED:
            place -= LIMITED
        number = None if line is None else numbers[line]
        more = (message.body, message.child, number, stored_key(message.key))
        rows.append((*columns[:2], place, at_us, *columns[4:], *more))
    return rows
