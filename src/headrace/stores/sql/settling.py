"""Decides about settlements, and divides them into portions for one transaction each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from headrace.core.history.entry import HistoryEntry
from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.job_log import NO_LOG
from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import (
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Expired,
    Failure,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
    Verdict,
)
from headrace.core.messages.outgoing import Outgoing
from headrace.core.values.bounds import checked_span_us

from .change_set import ChangedMessage, ChangeSet
from .lanes import CANCELLED, EXPIRED, RETRYING, RETURNED, RUNNING, SCHEDULED, SUCCEEDED

#: The limits of one transaction: the number of settlements, and the bytes of their results.
MOST_SETTLEMENTS: Final = 1000
MOST_BYTES: Final = 8 * 1024 * 1024

_KEPT, _GONE, _LOST = Verdict.KEPT, Verdict.GONE, Verdict.LOST


class RowToken(NamedTuple):
    """The fencing token of a claim: the numbers of the stream, of the message (its id may come again), and of
    the claim. `tid`: where PostgreSQL had the row after the claim."""

    stream: int
    seq: int
    claim: int
    tid: bytes = b""


def token_of(claim: Claim) -> RowToken:
    """The token of a claim that an SQL store made."""
    return cast(RowToken, claim.token)


def parts_of(settlements: Sequence[Settlement]) -> Iterator[list[Settlement]]:
    """Portions for one transaction each. Settlements do not depend on each other, so they can be divided."""
    part: list[Settlement] = []
    size = 0
    for settlement in settlements:
        part.append(settlement)
        size += _size(settlement.outcome)
        if settlement.forwards:
            size += sum([len(each.message.body) for each in settlement.forwards])
        if settlement.record is not None:
            size += settlement.record.size
        if len(part) == MOST_SETTLEMENTS or size > MOST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _size(outcome: Outcome) -> int:
    """The bytes of the result and of the job's log; both may be long."""
    if isinstance(outcome, Expired) or (isinstance(outcome, Done) and outcome.kept is None):
        return 0
    size = outcome.state.log.size if outcome.state and outcome.state.log is not NO_LOG else 0
    if isinstance(outcome, Done) and outcome.kept and outcome.kept.value:
        size += len(outcome.kept.value)
    return size


def decide(changes: ChangeSet, subject: ChangedMessage | None, settlement: Settlement) -> Verdict:
    """Decide about one settlement; `subject`: the current row of its message. A second settlement of a
    message in the same batch sees the place that the first one set."""
    outcome = settlement.outcome
    if isinstance(outcome, Done):
        # The id is checked too: in a SQLite file that was replaced, the number belongs to another message.
        if subject is None or subject.place > RUNNING or subject.id != settlement.claim.id:
            return _GONE
        kept = outcome.kept
        if kept is None:
            changes.end(subject, SUCCEEDED, ttl_us=0)
        else:
            ttl_us, state = checked_span_us(kept.ttl_us), outcome.state
            changes.end(subject, SUCCEEDED, ttl_us=ttl_us, result=kept.value, note=kept.note, state=state)
        return _KEPT
    if subject is None or subject.place != RUNNING or subject.claim != token_of(settlement.claim).claim:
        return _LOST
    match outcome:
        case Dead(state=state, reason=reason, failure=failure):
            changes.bury(subject, state, reason, failure)
        case Cancelled(ttl_us=ttl_us, state=state):
            changes.end(subject, CANCELLED, ttl_us=ttl_us, state=state)
        case Expired(ttl_us=ttl_us):
            changes.end(subject, EXPIRED, ttl_us=ttl_us)
        case Retry() | Snoozed() | Released():
            _run_again(changes, subject, outcome)
    return _KEPT


def _run_again(changes: ChangeSet, subject: ChangedMessage, outcome: Retry | Snoozed | Released) -> None:
    state = outcome.state
    subject.unstarted = isinstance(outcome, Released) and outcome.unstarted
    if subject.cancel_us is not None:
        changes.end(subject, CANCELLED, ttl_us=subject.cancel_us)
    elif outcome.delay_us > 0:
        place = RETRYING if isinstance(outcome, Retry) else SCHEDULED
        due_us = changes.transaction.now_us + checked_span_us(outcome.delay_us)
        changes.schedule(subject, state, place=place, due_us=due_us)
    elif isinstance(outcome, Released) and outcome.constraints is not None:
        changes.relabel(subject, state, outcome.constraints)
    else:
        returned = isinstance(outcome, Released) and not state.suspect
        changes.queue(subject, state, place=RETURNED if returned else None)


def note_known(changes: ChangeSet, held: Iterable[tuple[ChangedMessage | None, Claim]]) -> None:
    """A claim that holds its message knows the constraints. After it, the message may have got others."""
    for subject, claim in held:
        if claim.constraints is None or subject is None or subject.constraints is None:
            continue
        if subject.place == RUNNING and subject.claim == token_of(claim).claim:
            changes.lines.known[subject.constraints] = claim.constraints


def constraints_given(settlements: Sequence[Settlement]) -> list[tuple[int, Constraints]]:
    """The other constraints that settlements give to messages, each with the number of the stream."""
    return [
        (token_of(each.claim).stream, each.outcome.constraints)
        for each in settlements
        if type(each.outcome) is Released and each.outcome.constraints is not None
    ]


def forwards_of(
    settlements: Sequence[Settlement], verdicts: Sequence[Verdict]
) -> list[tuple[int, tuple[Outgoing, ...]]]:
    """What settlements forward that were kept, each with the number of the stream whose outbox takes it."""
    return [
        (token_of(settlement.claim).stream, settlement.forwards)
        for settlement, verdict in zip(settlements, verdicts, strict=True)
        if settlement.forwards and verdict is _KEPT
    ]


def records_of(
    settlements: Sequence[Settlement], verdicts: Sequence[Verdict]
) -> list[tuple[int, HistoryEntry]]:
    """The records of settlements that were kept, each with the number of its stream."""
    return [
        (token_of(settlement.claim).stream, settlement.record)
        for settlement, verdict in zip(settlements, verdicts, strict=True)
        if settlement.record is not None and verdict is _KEPT
    ]


def hand_back(claim: Claim) -> Settlement:
    """The settlement of a claim that its caller never received. The message is queued as if it had never
    been claimed, but before all others."""
    return Settlement(claim, Released(claim.state, unstarted=True))


def bury_of_another_queue(claim: Claim) -> Settlement:
    """The settlement of a damaged row: its constraints are those of a queue that was claimed from, and it is
    in another one."""
    failure = Failure("", "its constraints belong to another queue")
    return Settlement(claim, Dead(FRESH, DeadReason.UNDECODABLE, failure))
