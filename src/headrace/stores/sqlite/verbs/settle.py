"""Settles claims: reads the current rows, decides about each settlement, writes all changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.job_log import NO_LOG, encode_log
from headrace.core.messages.outcome import (
    Cancelled,
    Dead,
    Done,
    Expired,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
    Verdict,
)
from headrace.core.values.bounds import checked_span_us
from headrace.stores.sqlite.rows.lanes import (
    CANCELLED,
    EXPIRED,
    RETRYING,
    RETURNED,
    RUNNING,
    SCHEDULED,
    SUCCEEDED,
)
from headrace.stores.sqlite.rows.pending_changes import ChangedMessage, PendingChanges
from headrace.stores.sqlite.statements import message_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction

#: The limits of one transaction: the number of settlements, and the bytes of their results.
MOST_SETTLEMENTS: Final = 1000
MOST_BYTES: Final = 8 * 1024 * 1024

_KEPT, _GONE, _LOST = Verdict.KEPT, Verdict.GONE, Verdict.LOST


class RowToken(NamedTuple):
    """The fencing token of a claim: the number of the message, and the number of the claim."""

    seq: int
    claim: int


def token_of(claim: Claim) -> RowToken:
    """The token of a claim that this store made."""
    return cast(RowToken, claim.token)


def parts_of(settlements: Sequence[Settlement]) -> Iterator[list[Settlement]]:
    """Portions for one transaction each. Settlements do not depend on each other, so they can be divided."""
    part: list[Settlement] = []
    size = 0
    for settlement in settlements:
        part.append(settlement)
        size += _size(settlement.outcome)
        if len(part) == MOST_SETTLEMENTS or size > MOST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _size(outcome: Outcome) -> int:
    """The bytes of the result and of the job's log; both may be long."""
    if isinstance(outcome, Expired):
        return 0
    size = outcome.state.log.size if outcome.state and outcome.state.log is not NO_LOG else 0
    if isinstance(outcome, Done) and outcome.kept and outcome.kept.value:
        size += len(outcome.kept.value)
    return size


def settle(transaction: Transaction, settlements: Sequence[Settlement]) -> list[Verdict]:
    pending = PendingChanges(transaction)
    held = _read(transaction, [settlement.claim for settlement in settlements])
    verdicts = [
        _decide(pending, held.get(token_of(settlement.claim).seq), settlement, transaction.now_us)
        for settlement in settlements
    ]
    pending.write()
    return verdicts


def report(transaction: Transaction, reports: Sequence[Report]) -> None:
    logs = BulkBinding()
    rows = listed(
        (*token_of(report.claim), report.fraction, report.text, *logs.put(encode_log(report.log) or None))
        for report in reports
    )
    transaction.connection.change(message_statements.REPORT, (rows, transaction.now_us, logs.content()))


def _read(transaction: Transaction, claims: list[Claim]) -> dict[int, ChangedMessage]:
    """The current rows of the messages, by number."""
    streams = {token_of(claim).seq: claim.stream for claim in claims}
    rows = unlisted(transaction.connection.value(message_statements.READ_HELD, (listed(streams),)))
    return {
        seq: ChangedMessage(seq, streams[seq], number, id, place, priority, claim, cancel_us, unique_key)
        for seq, number, place, claim, priority, cancel_us, unique_key, id in rows
    }


def _decide(
    pending: PendingChanges, subject: ChangedMessage | None, settlement: Settlement, now_us: int
) -> Verdict:
    """Decide about one settlement. A second settlement of a message in the same batch sees the place that
    the first one set."""
    outcome = settlement.outcome
    if isinstance(outcome, Done):
        # The id is checked too: in a file that was replaced, the number belongs to another message.
        if subject is None or subject.place > RUNNING or subject.id != settlement.claim.id:
            return _GONE
        kept = outcome.kept
        if kept is None:
            pending.end(subject, SUCCEEDED, ttl_us=0)
        else:
            ttl_us, state = checked_span_us(kept.ttl_us), outcome.state
            pending.end(subject, SUCCEEDED, ttl_us=ttl_us, result=kept.value, note=kept.note, state=state)
        return _KEPT
    if subject is None or subject.place != RUNNING or subject.claim != token_of(settlement.claim).claim:
        return _LOST
    _enter(pending, subject, outcome, now_us)
    return _KEPT


def _enter(pending: PendingChanges, subject: ChangedMessage, outcome: Outcome, now_us: int) -> None:
    match outcome:
        case Dead(state=state, reason=reason, failure=failure):
            pending.bury(subject, state, reason, failure)
        case Cancelled(ttl_us=ttl_us, state=state):
            pending.end(subject, CANCELLED, ttl_us=ttl_us, state=state)
        case Expired(ttl_us=ttl_us):
            pending.end(subject, EXPIRED, ttl_us=ttl_us)
        case Retry() | Snoozed() | Released():
            _run_again(pending, subject, outcome, now_us)


def _run_again(
    pending: PendingChanges, subject: ChangedMessage, outcome: Retry | Snoozed | Released, now_us: int
) -> None:
    state = outcome.state
    if subject.cancel_us is not None:
        pending.end(subject, CANCELLED, ttl_us=subject.cancel_us)
    elif outcome.delay_us > 0:
        place = RETRYING if isinstance(outcome, Retry) else SCHEDULED
        pending.schedule(subject, state, place=place, due_us=now_us + outcome.delay_us)
    else:
        returned = isinstance(outcome, Released) and not state.suspect
        pending.queue(subject, state, place=RETURNED if returned else None)


def hand_back(claim: Claim) -> Settlement:
    """The settlement of a claim that its caller never received. The message is queued as if it had never
    been claimed, but before all others."""
    return Settlement(claim, Released(claim.state))
