"""Passes the keys of ordered groups on: when a message ends, the first one parked behind it gets the key."""

from __future__ import annotations

from typing import NamedTuple

from headrace.core.messages.message import Stream
from headrace.core.topics.topic import DRAWABLE_BELOW
from headrace.core.values.bounds import LATEST_US
from headrace.stores.sqlite.rows.lanes import FIRST_PRIORITY, PARKED
from headrace.stores.sqlite.rows.unique_keys import release_keys
from headrace.stores.sqlite.statements import topic_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction


class EndedMessage(NamedTuple):
    """A message of a group that has ended, with the key that it held or was parked for."""

    group: Stream
    stream: int
    key: str
    id: str


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
        transaction.changes.ready.update(each.group for each in ended)
    groups = {each.stream: each.group for each in ended}
    for _, stream, _, _ in following:
        transaction.count(stream, PARKED, -1)
        transaction.count(stream, FIRST_PRIORITY, 1)
        transaction.changes.ready.add(groups[stream])


def next_in_line_us(transaction: Transaction, stream: int) -> int:
    """The time to give to the next parked message. Parked messages are ordered by their times, so it is later
    than all of these, even when the clock was set back."""
    last_us: int | None = transaction.connection.value(topic_statements.LAST_PARKED, (stream,))
    # A damaged time may be the largest possible number.
    return transaction.now_us if last_us is None else max(transaction.now_us, min(last_us, LATEST_US) + 1)
