"""Writes the changes of a step, with one statement for each kind of change."""

from __future__ import annotations

import msgspec

from headrace.stores.sql.change_set import ChangeSet, stored_state
from headrace.stores.sqlite.limits.lines import LineTable
from headrace.stores.sqlite.limits.ordered_jobs import pass_on_jobs
from headrace.stores.sqlite.statements import message_statements, upkeep_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, listed
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics.key_order import pass_on

from .unique_keys import release_keys

_encode = msgspec.msgpack.Encoder().encode


def write_changes(transaction: Transaction, changes: ChangeSet) -> None:
    _announce_due(transaction, changes)
    connection, now_us = transaction.connection, transaction.now_us
    if changes.relabeled:
        relabeled = listed((subject.seq, subject.constraints) for subject in changes.relabeled)
        connection.change(message_statements.RELABEL, (relabeled,))
    if changes.moves:
        states = BulkBinding()
        moves = [
            (subject.seq, place, at_us, lane, *states.put(stored_state(state)))
            for subject, place, at_us, lane, state in changes.moves
        ]
        connection.change(message_statements.MOVE, (listed(moves), states.content()))
    if changes.unread:
        unread = listed(subject.seq for subject in changes.unread)
        connection.change(upkeep_statements.RETURN_UNREAD, (unread, now_us))
    if changes.burials:
        stored = BulkBinding()
        burials = [
            (subject.seq, reason.value, *stored.put(stored_state(state)), *stored.put(_encode(failure)))
            for subject, state, reason, failure in changes.burials
        ]
        connection.change(message_statements.BURY, (listed(burials), stored.content(), now_us))
    if changes.endings:
        stored = BulkBinding()
        endings = [
            (subject.seq, place, until_us, note, *stored.put(result), *stored.put(stored_state(state)))
            for subject, place, until_us, note, result, state in changes.endings
        ]
        connection.change(message_statements.END, (listed(endings), stored.content(), now_us))
    if changes.forgotten:
        forgotten = listed([subject.seq for subject in changes.forgotten])
        connection.change(message_statements.FORGET, (forgotten,))
    release_keys(transaction, changes.released)
    release_keys(transaction, changes.given_up, expired=True)
    pass_on(transaction, changes.passed_on)
    pass_on_jobs(transaction, changes.passed_on_jobs, changes.lines)
    if changes.lines:
        LineTable(transaction).follow(changes.lines)


def _announce_due(transaction: Transaction, changes: ChangeSet) -> None:
    for stream, (number, due_us) in changes.due.items():
        transaction.announce_if_due_sooner(stream, transaction.next_due_us([number]), due_us)
