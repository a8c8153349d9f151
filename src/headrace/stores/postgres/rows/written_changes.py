"""Writes the changes of a step, with one statement for each kind of change."""

from __future__ import annotations

import msgspec

from headrace.stores.postgres.limits.lines import PostgresLines
from headrace.stores.postgres.limits.ordered_jobs import pass_on_jobs
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import message_statements
from headrace.stores.postgres.topics.key_order import pass_on
from headrace.stores.sql.change_set import ChangeSet, stored_state

from .columns import columns
from .unique_keys import give_up_keys, release_keys

_encode = msgspec.msgpack.Encoder().encode


async def write_changes(transaction: PostgresTransaction, changes: ChangeSet) -> None:
    await _announce_due(transaction, changes)
    change, now_us = transaction.change, transaction.now_us
    if changes.relabeled:
        relabeled = [(subject.number, subject.id, subject.constraints) for subject in changes.relabeled]
        await change(message_statements.RELABEL, columns(relabeled))
    if changes.moves:
        moves = [
            (subject.number, subject.id, place, at_us, lane, stored_state(state), state.begun)
            for subject, place, at_us, lane, state in changes.moves
        ]
        await change(message_statements.MOVE, columns(moves))
    if changes.unread:
        unread = [(subject.number, subject.id) for subject in changes.unread]
        await change(message_statements.RETURN_UNREAD, (*columns(unread), now_us))
    if changes.burials:
        burials = [
            (subject.number, subject.id, reason.value, stored_state(state), _encode(failure))
            for subject, state, reason, failure in changes.burials
        ]
        await change(message_statements.BURY, (*columns(burials), now_us))
    if changes.endings:
        endings = [
            (subject.number, subject.id, place, until_us, note, result, stored_state(state), state is None)
            for subject, place, until_us, note, result, state in changes.endings
        ]
        await change(message_statements.WRITE_END_RECORDS, (*columns(endings), now_us))
    if changes.forgotten:
        forgotten = [(subject.number, subject.id) for subject in changes.forgotten]
        await change(message_statements.FORGET, columns(forgotten))
    await release_keys(transaction, changes.released)
    await give_up_keys(transaction, changes.given_up)
    await pass_on(transaction, changes.passed_on)
    await _follow(transaction, changes)


async def _follow(transaction: PostgresTransaction, changes: ChangeSet) -> None:
    """What follows from the changes for ordered jobs and for lines."""
    if changes.passed_on_jobs or changes.lines:
        await transaction.lock_lines()  # an expired owner of a unique key: the step could not know before
        await pass_on_jobs(transaction, changes.passed_on_jobs, changes.lines)
        await PostgresLines(transaction).follow(changes.lines)


async def _announce_due(transaction: PostgresTransaction, changes: ChangeSet) -> None:
    for stream, (number, due_us) in changes.due.items():
        before_us = await transaction.next_due_us([number])
        transaction.announce_if_due_sooner(stream, before_us, due_us)
