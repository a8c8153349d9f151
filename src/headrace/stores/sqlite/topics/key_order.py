"""Passes the keys of ordered groups on: when a message ends, the first one parked behind it gets the key."""

from __future__ import annotations

from headrace.core.topics.topic import DRAWABLE_BELOW
from headrace.stores.sql.change_set import EndedMessage
from headrace.stores.sql.lanes import FIRST_PRIORITY, PARKED
from headrace.stores.sql.rows.topic_rows import behind_parked_us
from headrace.stores.sqlite.rows.unique_keys import release_keys
from headrace.stores.sqlite.statements import topic_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction


def pass_on(transaction: Transaction, ended: list[EndedMessage]) -> None:
    """Pass on the keys of ended messages. Their rows must have left their places before."""
    if not ended:
        return
    connection = transaction.connection
    release_keys(transaction, [(each.stream, each.key, each.id) for each in ended])
    freed = listed(dict.fromkeys((each.stream, each.key) for each in ended))
    following = unlisted(connection.value(topic_statements.FIND_NEXT, (freed,)))
    if following:
        connection.change(topic_statements.UNPARK, (listed(row[0] for row in following), transaction.now_us))
        connection.change(topic_statements.HAND_OVER_KEYS, (listed(row[1:] for row in following),))
    if connection.change(topic_statements.NOTE_ROOM, (freed, DRAWABLE_BELOW)):
        transaction.ready.update(each.group for each in ended)
    groups = {each.stream: each.group for each in ended}
    for _, stream, _, _ in following:
        transaction.count(stream, PARKED, -1)
        transaction.count(stream, FIRST_PRIORITY, 1)
        transaction.ready.add(groups[stream])


def next_in_line_us(transaction: Transaction, stream: int) -> int:
    """The time to give to the next parked message."""
    last_us = transaction.connection.value(topic_statements.LAST_PARKED, (stream,))
    return behind_parked_us(last_us, transaction.now_us)
