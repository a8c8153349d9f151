"""Settles claims: reads the current rows, decides about each settlement, writes all changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.job_log import encode_log
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.messages.outgoing import Outgoing, encode_outgoing
from headrace.stores.sql.change_set import ChangedMessage, ChangeSet
from headrace.stores.sql.limits.budgets import stored_constraints
from headrace.stores.sql.settling import (
    constraints_given,
    decide,
    forwards_of,
    note_known,
    records_of,
    token_of,
)
from headrace.stores.sqlite.limits.lines import numbers_of
from headrace.stores.sqlite.rows.history import write_history
from headrace.stores.sqlite.rows.written_changes import write_changes
from headrace.stores.sqlite.statements import limit_statements, message_statements, outbox_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction


def settle(transaction: Transaction, settlements: Sequence[Settlement]) -> list[Verdict]:
    changes = ChangeSet(transaction)
    _number_constraints(transaction, changes, constraints_given(settlements))
    held = _read(transaction, [settlement.claim for settlement in settlements])
    note_known(changes, [(held.get(token_of(each.claim).seq), each.claim) for each in settlements])
    verdicts = [decide(changes, held.get(token_of(each.claim).seq), each) for each in settlements]
    write_changes(transaction, changes)
    _write_outgoing(transaction, forwards_of(settlements, verdicts))
    write_history(transaction, records_of(settlements, verdicts))
    return verdicts


def _number_constraints(
    transaction: Transaction, changes: ChangeSet, given: list[tuple[int, Constraints]]
) -> None:
    for stream, constraints in dict.fromkeys(given):
        stored = stored_constraints(constraints)
        number = numbers_of(transaction, stream, [stored])[stored]
        changes.numbers[stream, constraints] = number
        changes.lines.ended.add(number)  # they go again when no message gets them
        transaction.connection.change(limit_statements.NOTE_LINES, (stream,))


def _write_outgoing(transaction: Transaction, forwards: Iterable[tuple[int, tuple[Outgoing, ...]]]) -> None:
    """Write outgoing messages, each with the number of the stream whose outbox takes them."""
    for stream, outgoing in forwards:
        for each in outgoing:
            row = (stream, transaction.now_us, encode_outgoing(each))
            transaction.connection.change(outbox_statements.ADD, row)


def report(transaction: Transaction, reports: Sequence[Report]) -> None:
    logs = BulkBinding()
    rows = listed(
        (*token_of(each.claim)[1:3], each.fraction, each.text, *logs.put(encode_log(each.log) or None))
        for each in reports
    )
    transaction.connection.change(message_statements.REPORT, (rows, transaction.now_us, logs.content()))


def _read(transaction: Transaction, claims: list[Claim]) -> dict[int, ChangedMessage]:
    """The current rows of the messages, by number."""
    streams = {token_of(claim).seq: claim.stream for claim in claims}
    rows = unlisted(transaction.connection.value(message_statements.READ_HELD, (listed(streams),)))
    return {
        seq: ChangedMessage(
            *(streams[seq], number, id, place, priority, claim, cancel_us, key, seq),
            constraints=constraints,
            child=bool(child),
            order_key=order_key,
        )
        for seq, number, place, claim, priority, cancel_us, key, id, constraints, child, order_key in rows
    }
