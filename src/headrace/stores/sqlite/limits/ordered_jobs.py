"""Keeps the order of jobs that have a key: one of them is let in, and the others are parked behind it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.stores.sql.change_set import EndedMessage
from headrace.stores.sql.lanes import FIRST_PRIORITY, PARKED
from headrace.stores.sql.limits import order_keys
from headrace.stores.sql.limits.line_changes import LineChanges
from headrace.stores.sqlite.rows.unique_keys import release_keys
from headrace.stores.sqlite.statements import (
    limit_statements,
    message_statements,
    topic_statements,
    upkeep_statements,
)
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction


def let_in(transaction: Transaction, stream: int, wanted: Sequence[tuple[str | None, str]]) -> list[bool]:
    """Give jobs their keys, each job as key and id. False: another job holds the key. A job without a key is
    always let in."""
    keys = listed(order_keys.wanted_keys(wanted))
    holders = dict(unlisted(transaction.connection.value(limit_statements.FIND_HOLDERS, (stream, keys))))
    answers, taken = order_keys.let_in(wanted, holders)
    if taken:
        transaction.connection.change(message_statements.TAKE_KEYS, (stream, listed(taken)))
    return answers


def park(transaction: Transaction, stream: int, seqs: Sequence[int], at_us: int) -> None:
    """Park jobs. `at_us`: see `next_in_line_us`."""
    if seqs:
        transaction.connection.change(topic_statements.PARK, (listed(seqs), at_us))
        transaction.count(stream, PARKED, len(seqs))


def pass_on_jobs(transaction: Transaction, ended: list[EndedMessage], lines: LineChanges) -> None:
    """Let in the next jobs of the keys of ended jobs. Their rows must have left their places before."""
    if not ended:
        return
    connection = transaction.connection
    release_keys(transaction, [(each.stream, each.key, each.id) for each in ended])
    freed = listed(dict.fromkeys((each.stream, each.key) for each in ended))
    following = unlisted(connection.value(limit_statements.FIND_NEXT_JOBS, (freed,)))
    if not following:
        return
    connection.change(upkeep_statements.PROMOTE, (listed(row[0] for row in following), transaction.now_us))
    connection.change(topic_statements.HAND_OVER_KEYS, (listed(row[1:4] for row in following),))
    streams = {each.stream: each.group for each in ended}
    for _, stream, _, _, constraints, place in following:
        transaction.count(stream, PARKED, -1)
        transaction.count(stream, FIRST_PRIORITY, 1)
        transaction.ready.add(streams[stream])
        if constraints is not None:
            lines.moved[constraints, place] += 1
