"""The keys of ordered groups: whoever ends passes his on to the first that is parked behind him."""

from __future__ import annotations

from typing import NamedTuple

from headrace.core.messages.message import Stream
from headrace.core.topics.topic import HUNGRY_BELOW
from headrace.core.values.bounds import LATEST_US
from headrace.stores.sqlite.rows.lanes import FIRST_PRIORITY, PARKED
from headrace.stores.sqlite.statements import message_statements, topic_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction


class EndedMessage(NamedTuple):
    """A message of a group that has ended, with the key that it held or was parked for."""

    group: Stream
    stream: int
    key: str
    id: str


def pass_on(transaction: Transaction, leavers: list[EndedMessage]) -> None:
    """After they have left their places."""
    if not leavers:
        return
    connection = transaction.connection
    connection.change(
        message_statements.RELEASE_KEYS, (listed((each.stream, each.key, each.id) for each in leavers),)
    )
    freed = listed(dict.fromkeys((each.stream, each.key) for each in leavers))
    following = unlisted(connection.value(topic_statements.FIND_NEXT, (freed,)))
    if following:
        connection.change(topic_statements.UNPARK, (listed(row[0] for row in following), transaction.now_us))
        connection.change(topic_statements.HAND_OVER_KEYS, (listed(row[1:] for row in following),))
    if connection.change(topic_statements.NOTE_ROOM, (freed, HUNGRY_BELOW)):
        transaction.news.ready.update(each.group for each in leavers)
    groups = {each.stream: each.group for each in leavers}
    for _, stream, _, _ in following:
        transaction.count(stream, PARKED, -1)
        transaction.count(stream, FIRST_PRIORITY, 1)
        transaction.news.ready.add(groups[stream])


def next_in_line_us(transaction: Transaction, stream: int) -> int:
    """The time of whatever is parked next. It is behind all that are, also when the clock was set back: it
    is by their times that they stand in line."""
    last_us: int | None = transaction.connection.value(topic_statements.LAST_PARKED, (stream,))
    # A time that was damaged may be the largest number that there is.
    return transaction.now_us if last_us is None else max(transaction.now_us, min(last_us, LATEST_US) + 1)
