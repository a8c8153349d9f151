"""Settles claims: locks the current rows, decides about each settlement, writes all changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.core.messages.job_log import encode_log
from headrace.core.messages.outcome import Done, Kept, Released, Retry, Settlement, Snoozed, Verdict
from headrace.core.values.bounds import checked_span_us
from headrace.stores.postgres.limits.lines import numbers_of
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.rows.written_changes import write_changes
from headrace.stores.postgres.session.arrays import TidList
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import limit_statements, message_statements
from headrace.stores.postgres.topics.key_order import lock_groups
from headrace.stores.sql.change_set import ChangedMessage, ChangeSet, stored_state
from headrace.stores.sql.settling import (
    constraints_given,
    decide,
    forwards_of,
    note_known,
    records_of,
    token_of,
)
from headrace.stores.sql.wake_ups import WakeUps

from .history import write_history
from .outbox import write_outgoing

#: The number of the stream, the id, and the number of the message.
MessageKey = tuple[int, str, int]

# --- successes, in one round trip -------------------------------------------------------------------------


def check_spans(settlements: Sequence[Settlement]) -> None:
    """Raise before anything is written, when a settlement has a span that cannot be stored."""
    for settlement in settlements:
        match settlement.outcome:
            case Done(kept=None):
                pass
            case Done(kept=Kept(ttl_us=ttl_us)):
                checked_span_us(ttl_us)
            case Retry(delay_us=delay_us) | Snoozed(delay_us=delay_us) | Released(delay_us=delay_us):
                checked_span_us(max(delay_us, 0))


def divided(settlements: Sequence[Settlement]) -> tuple[list[int], list[int], list[int]]:
    """The indexes of the successes that forward and record nothing: without constraints, and with. And of all
    others. When a batch settles a message twice, the order counts, and all are others."""
    if len({token_of(each.claim).seq for each in settlements}) < len(settlements):
        return [], [], list(range(len(settlements)))
    done: list[int] = []
    lined: list[int] = []
    others: list[int] = []
    for index, each in enumerate(settlements):
        if not isinstance(each.outcome, Done) or each.forwards or each.record is not None:
            others.append(index)
        elif each.claim.constraints is None:
            done.append(index)
        else:
            lined.append(index)
    return done, lined, others


def done_values(settlements: Sequence[Settlement], offset_us: int, durability: str) -> list[object]:
    """The values of `message_statements.SETTLE_DONE`."""
    tokens = [token_of(each.claim) for each in settlements]
    kept = [_kept(each.outcome) for each in settlements if isinstance(each.outcome, Done)]
    ttls = [ttl_us for ttl_us, *_ in kept]
    return [
        [token.stream for token in tokens],
        [each.claim.id for each in settlements],
        [token.seq for token in tokens],
        TidList([token.tid for token in tokens]),
        *columns(kept),
        any([each.claim.stream.kind == "group" for each in settlements]),
        max(ttls) > 0,
        min(ttls) <= 0,
        offset_us,
        durability,
    ]


def lined_values(
    namespace: str, settlements: Sequence[Settlement], offset_us: int, durability: str
) -> list[object]:
    """The values of `message_statements.SETTLE_LINED`."""
    tokens = [token_of(each.claim) for each in settlements]
    kept = [_kept(each.outcome) for each in settlements if isinstance(each.outcome, Done)]
    keeps_some = any([ttl_us > 0 for ttl_us, *_ in kept])
    return [
        namespace,
        [token.stream for token in tokens],
        [each.claim.id for each in settlements],
        [token.seq for token in tokens],
        TidList([token.tid for token in tokens]),
        [token.claim for token in tokens],
        *(columns(kept) if keeps_some else [None] * 5),
        *_limits_of(settlements),
        offset_us,
        durability,
    ]


def _limits_of(settlements: Sequence[Settlement]) -> list[list[object]]:
    """The names and keys of the limits of all messages, and how many messages have each."""
    counts = Counter([each.claim.constraints for each in settlements])
    limits: Counter[LimitKey] = Counter()
    for constraints, count in counts.items():
        for key in constraints.limits if constraints else ():
            limits[key] += count
    rows = [(key.limit, key.key, count) for key, count in limits.items()]
    return columns(rows) if rows else [[], [], []]


def _kept(outcome: Done) -> tuple[int, bytes | None, str | None, bytes | None, bool]:
    kept, state = outcome.kept, outcome.state
    if kept is None:
        return 0, None, None, None, True
    ttl_us, stored = checked_span_us(kept.ttl_us), stored_state(state)
    return ttl_us, kept.value, kept.note or None, stored, state is None


def wake_ups_of(settlements: Sequence[Settlement], waited_for: Sequence[int] | None) -> WakeUps:
    ended = {
        (settlements[each - 1].claim.stream, settlements[each - 1].claim.id) for each in waited_for or ()
    }
    return WakeUps(ended=ended)


# --- all outcomes, in a transaction -----------------------------------------------------------------------


def have_lines(settlements: Sequence[Settlement]) -> bool:
    return any([each.claim.constraints is not None for each in settlements])


async def settle(transaction: PostgresTransaction, settlements: Sequence[Settlement]) -> list[Verdict]:
    claims = [settlement.claim for settlement in settlements]
    given = constraints_given(settlements)
    if given or have_lines(settlements):
        await transaction.lock_lines()
    await lock_groups(transaction, {token_of(each).stream for each in claims if each.stream.kind == "group"})
    held = await _lock(transaction, claims)
    changes = ChangeSet(transaction)
    note_known(changes, [(held.get(_key(claim)), claim) for claim in claims])
    await _number_constraints(transaction, changes, given)
    verdicts = [decide(changes, held.get(_key(each.claim)), each) for each in settlements]
    await write_changes(transaction, changes)
    await write_outgoing(transaction, forwards_of(settlements, verdicts))
    await write_history(transaction, records_of(settlements, verdicts))
    return verdicts


async def _number_constraints(
    transaction: PostgresTransaction, changes: ChangeSet, given: list[tuple[int, Constraints]]
) -> None:
    for stream, constraints in dict.fromkeys(given):
        number = (await numbers_of(transaction, stream, [constraints]))[constraints]
        changes.numbers[stream, constraints] = number
        changes.lines.ended.add(number)  # they go again when no message gets them
        await transaction.change(limit_statements.NOTE_LINES, (stream,))


async def report(transaction: PostgresTransaction, reports: Sequence[Report]) -> None:
    latest = {(token_of(each.claim), each.claim.id): each for each in reports}
    rows = [
        (
            token_of(each.claim).stream,
            each.claim.id,
            token_of(each.claim).claim,
            each.fraction,
            _bytes(each.text),
            _log(each),
        )
        for each in latest.values()
    ]
    if rows:
        await transaction.change(message_statements.REPORT, (*columns(rows), transaction.now_us))


def _key(claim: Claim) -> MessageKey:
    token = token_of(claim)
    return token.stream, claim.id, token.seq


def _bytes(text: str) -> bytes:
    # PostgreSQL's text cannot hold every character.
    return text.encode(errors="replace")


def _log(report: Report) -> bytes | None:
    return encode_log(report.log) or None


async def _lock(transaction: PostgresTransaction, claims: list[Claim]) -> dict[MessageKey, ChangedMessage]:
    """The current rows of the messages, locked."""
    streams = {_key(claim): claim.stream for claim in claims}
    rows = await transaction.rows(message_statements.LOCK_HELD, columns(streams)) if streams else []
    return {
        (number, id, seq): ChangedMessage(
            *(streams[number, id, seq], number, id, place, priority, claim, cancel_us, key, seq, awaited),
            constraints=line[0],
            child=line[1],
            order_key=line[2],
        )
        for number, id, seq, place, claim, priority, cancel_us, key, awaited, *line in rows
    }
