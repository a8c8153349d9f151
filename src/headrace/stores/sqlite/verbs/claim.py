"""Claims queued messages: finds what is ready, leases it to a worker, and builds the claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.message import FRESH, Stream, decode_state
from headrace.core.rules.lanes import is_child_work_first
from headrace.core.store import CLAIM_BYTES
from headrace.stores.sql.change_set import HeldKey
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sql.lanes import (
    CHILD,
    FIRST_PRIORITY,
    RETURNED,
    RUNNING,
    SUSPECT,
    lane_for,
)
from headrace.stores.sql.limits.budgets import UNREADABLE
from headrace.stores.sql.limits.choosing import ConstrainedChoice, LineStream, Ready, Taken
from headrace.stores.sql.settling import RowToken, bury_of_another_queue, token_of
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.limits.taking import LineTaking
from headrace.stores.sqlite.rows.readable_ids import REPLACED, mend_id, readable_id
from headrace.stores.sqlite.rows.unique_keys import release_keys
from headrace.stores.sqlite.statements import message_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkRows, listed, unlisted
from headrace.stores.sqlite.threads.transaction import OpenStream, Transaction, new_number, resolve
from headrace.stores.sqlite.topics.drawing import draw, is_a_group_behind
from headrace.stores.sqlite.topics.groups import revive

from .settle import settle


def is_something_ready(
    connection: Connection,
    namespace: str,
    streams: Sequence[Stream],
    *,
    suspects: bool,
    children: bool = True,
    constrained: bool = True,
) -> bool:
    """Whether a claim would find something. The store asks this first: an empty claim must not lock the
    file."""
    wanted = listed(streams)
    first = SUSPECT if suspects else RETURNED
    bindings = (namespace, wanted, first, int(children), int(constrained))
    if connection.value(message_statements.IS_SOMETHING_READY, bindings):
        return True
    groups = [stream for stream in streams if stream.kind == "group"]
    return bool(groups) and is_a_group_behind(connection, namespace, groups)


def claim(transaction: Transaction, request: ClaimQuery) -> list[Claim]:
    if groups := request.groups:
        revive(transaction, groups, request.wants_order)
        draw(transaction, groups, request.limit)
    streams = _open_streams(transaction, request)
    found = _find_all(transaction.connection, streams, request)
    if request.constrained > 0 and any([stream.held_lines for stream in streams]):
        return _claim_with_lines(transaction, streams, request, found)
    seqs = _bounded(found[: request.limit])
    return _hand_out(transaction, streams, seqs, request.consumer) if seqs else []


def _claim_with_lines(
    transaction: Transaction, streams: list[OpenStream], request: ClaimQuery, found: list[Ready]
) -> list[Claim]:
    """Messages without and with constraints get half each of a lane, or what the others leave."""
    number, worker = new_number(), _worker(transaction, request.consumer)

    def lease(seqs: list[int]) -> None:
        bindings = (listed(seqs), transaction.now_us, number, worker)
        transaction.connection.change(message_statements.LEASE, bindings)

    taking = LineTaking(transaction, lease)
    lined = [LineStream(each.number, bool(each.held_children)) for each in streams if each.held_lines]
    chosen = _chosen(ConstrainedChoice(lined, request, found), taking)
    taking.finish()
    if plain := [seq for seq in chosen if seq not in taking.constraints]:
        lease(plain)
    return _read_claims(transaction, streams, chosen, number, taking.constraints) if chosen else []


def _chosen(choice: ConstrainedChoice, taking: LineTaking) -> list[int]:
    steps = choice.run()
    taken: list[Taken] | None = None
    while True:
        try:
            request = next(steps) if taken is None else steps.send(taken)
        except StopIteration as done:
            chosen: list[int] = done.value
            return chosen
        taken = taking.take(request)


def _open_streams(transaction: Transaction, request: ClaimQuery) -> list[OpenStream]:
    """The streams that are not paused."""
    rows = resolve(transaction.connection, transaction.namespace, request.streams_in_turn)
    return [row for row in rows if not row.paused]


def _find_all(connection: Connection, streams: list[OpenStream], request: ClaimQuery) -> list[Ready]:
    """The messages without constraints that could be claimed, in their order."""
    found = _find(connection, [stream.number for stream in streams], request, child=False)
    with_children = [stream.number for stream in streams if stream.held_children] if request.children else []
    if with_children:
        found = _merged(found, _find(connection, with_children, request, child=True), request)
    return found


def _bounded(found: list[Ready]) -> list[int]:
    """The numbers of the messages to claim, bounded in bytes."""
    chosen: list[int] = []
    size = 0
    for seq, length, _ in found:
        size += length or 0
        if chosen and size > CLAIM_BYTES:
            break
        chosen.append(seq)
    return chosen


def _find(connection: Connection, streams: list[int], request: ClaimQuery, *, child: bool) -> list[Ready]:
    most = min(request.limit, request.children) if child else request.limit
    lanes = [lane_for(lane, child=child) for lane in request.lanes]
    suspects = min(request.suspects, most), most, lane_for(SUSPECT, child=child)
    bindings = (listed(streams), listed(lanes), *suspects)
    return unlisted(connection.value(message_statements.FIND_READY, bindings))[:most]


def _merged(others: list[Ready], children: list[Ready], request: ClaimQuery) -> list[Ready]:
    """Both lists, lane by lane. Within a lane, child work goes first every other turn."""
    ranks = {lane: rank for rank, lane in enumerate((SUSPECT, *request.lanes))}
    ranks |= {lane - CHILD: rank for lane, rank in ranks.items()}
    both = [*children, *others] if is_child_work_first(request.turn) else [*others, *children]
    both.sort(key=lambda ready: ranks[ready[2]])
    suspects = [ready for ready in both if ranks[ready[2]] == 0]
    return [*suspects[: request.suspects], *both[len(suspects) :]]


def _hand_out(
    transaction: Transaction, streams: list[OpenStream], seqs: list[int], consumer: str
) -> list[Claim]:
    number = new_number()
    bindings = (listed(seqs), transaction.now_us, number, _worker(transaction, consumer))
    transaction.connection.change(message_statements.LEASE, bindings)
    return _read_claims(transaction, streams, seqs, number, {})


def _read_claims(
    transaction: Transaction,
    streams: list[OpenStream],
    seqs: list[int],
    number: int,
    constraints: Mapping[int, Constraints],
) -> list[Claim]:
    connection, now_us = transaction.connection, transaction.now_us
    names = {each.number: each.stream for each in streams}
    array = listed(seqs)
    rows, states, bodies = connection.row(message_statements.READ_LEASED, (array,))
    unpack_state, unpack_body = BulkRows(states), BulkRows(bodies)
    claims: dict[int, Claim] = {}
    started: dict[int, HeldKey] = {}
    taken = Counter[int]()
    for seq, stream, id, priority, expires_us, key, until, child, state_length, body_length in unlisted(rows):
        stored, body = unpack_state.take(state_length), unpack_body.take(body_length) or b""
        try:
            state = FRESH if stored is None else decode_state(stored)
            problem = "" if REPLACED not in id else mend_id(connection, seq)
        except DECODE_ERRORS as error:
            state, problem = FRESH, f"its state cannot be read ({error}): {stored!r:.200}"
        if constraints.get(seq) is UNREADABLE:
            problem = "its constraints cannot be read"
        if problem:
            id, body = readable_id(seq, id), b""
        claims[seq] = Claim(
            names.get(stream) or streams[0].stream,
            id,
            body,
            RowToken(stream, seq, number),
            now_us,
            state,
            priority,
            expires_us,
            bool(child),
            constraints.get(seq),
            problem,
        )
        taken[stream] += 1
        if until == "started":
            started[seq] = (stream, key, id)
    for stream, count in taken.items():
        transaction.count(stream, FIRST_PRIORITY, -count)
        transaction.count(stream, RUNNING, count)
    _release_started(transaction, started)
    if taken.keys() - names.keys():
        _bury(transaction, [each for each in claims.values() if token_of(each).stream not in names])
    return [claims[seq] for seq in seqs if token_of(claims[seq]).stream in names]


def _bury(transaction: Transaction, claims: list[Claim]) -> None:
    settle(transaction, [bury_of_another_queue(claim) for claim in claims])


def _worker(transaction: Transaction, consumer: str) -> int:
    """The number of a worker's name. Rows hold the number, because they must keep their size."""
    connection, namespace = transaction.connection, transaction.namespace
    found: int | None = connection.value(message_statements.FIND_WORKER, (namespace, consumer))
    if found is not None:
        return found
    added: int = connection.value(message_statements.ADD_WORKER, (namespace, consumer, transaction.now_us))
    return added


def _release_started(transaction: Transaction, started: dict[int, HeldKey]) -> None:
    if started:
        release_keys(transaction, list(started.values()))
        transaction.connection.change(message_statements.SPEND_STARTED_KEYS, (listed(started),))
