"""Claims queued messages: finds what is ready, leases it to a worker, and builds the claims."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import msgspec

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH, State, Stream, decode_state
from headrace.core.rules.lanes import first_of, is_child_work_first, is_from_bottom
from headrace.core.store import CLAIM_BYTES
from headrace.core.values.decoding import DECODE_ERRORS
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.rows.lanes import (
    BOTTOM_UP,
    CHILD,
    FIRST_PRIORITY,
    RETURNED,
    RUNNING,
    SUSPECT,
    TOP_DOWN,
    lane_for,
)
from headrace.stores.sqlite.rows.readable_ids import REPLACED, mend_id, readable_id
from headrace.stores.sqlite.rows.unique_keys import HeldKey, release_keys
from headrace.stores.sqlite.statements import message_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkRows, listed, unlisted
from headrace.stores.sqlite.threads.transaction import OpenStream, Transaction, new_number, resolve
from headrace.stores.sqlite.topics.drawing import draw, is_a_group_behind
from headrace.stores.sqlite.topics.groups import revive

from .settle import RowToken

#: The number of a message that can be claimed, the length of its body, its place.
Ready = tuple[int, int, int]


class ClaimQuery(msgspec.Struct, frozen=True):
    """What a worker asks for. `turn` counts the claims of this process; `wants_order` says which groups it
    wants to be ordered."""

    streams: Sequence[Stream]
    consumer: str
    limit: int
    suspects: int
    turn: int
    children: int = sys.maxsize
    wants_order: Mapping[Stream, bool] = {}


def is_something_ready(
    connection: Connection,
    namespace: str,
    streams: Sequence[Stream],
    *,
    suspects: bool,
    children: bool = True,
) -> bool:
    """Whether a claim would find something. The store asks this first: an empty claim must not lock the
    file."""
    wanted = listed(streams)
    first = SUSPECT if suspects else RETURNED
    if connection.value(message_statements.IS_SOMETHING_READY, (namespace, wanted, first, int(children))):
        return True
    groups = _groups(streams)
    return bool(groups) and is_a_group_behind(connection, namespace, groups)


def claim(transaction: Transaction, request: ClaimQuery) -> list[Claim]:
    if groups := _groups(request.streams):
        revive(transaction, groups, request.wants_order)
        draw(transaction, groups, request.limit)
    streams = _open_streams(transaction, request)
    seqs = _choose(transaction.connection, streams, request)
    return _hand_out(transaction, streams, seqs, request.consumer) if seqs else []


def _groups(streams: Sequence[Stream]) -> list[Stream]:
    return [stream for stream in streams if stream.kind == "group"]


def _open_streams(transaction: Transaction, request: ClaimQuery) -> list[OpenStream]:
    """The streams that are not paused. They take turns: the first of this claim is the last of the next."""
    streams, turn = request.streams, request.turn
    first = first_of(len(streams), turn)
    rows = resolve(transaction.connection, transaction.namespace, [*streams[first:], *streams[:first]])
    return [row for row in rows if not row.paused]


def _choose(connection: Connection, streams: list[OpenStream], request: ClaimQuery) -> list[int]:
    """The numbers of the messages to claim, in their order."""
    found = _find(connection, [stream.number for stream in streams], request, child=False)
    with_children = [stream.number for stream in streams if stream.held_children] if request.children else []
    if with_children:
        found = _merged(found, _find(connection, with_children, request, child=True), request)
    chosen: list[int] = []
    size = 0
    for seq, length, _ in found[: request.limit]:
        size += length or 0
        if chosen and size > CLAIM_BYTES:
            break
        chosen.append(seq)
    return chosen


def _find(connection: Connection, streams: list[int], request: ClaimQuery, *, child: bool) -> list[Ready]:
    most = min(request.limit, request.children) if child else request.limit
    lanes = [lane_for(lane, child=child) for lane in _lanes(request)]
    suspects = min(request.suspects, most), most, lane_for(SUSPECT, child=child)
    bindings = (listed(streams), listed(lanes), *suspects)
    return unlisted(connection.value(message_statements.FIND_READY, bindings))[:most]


def _merged(others: list[Ready], children: list[Ready], request: ClaimQuery) -> list[Ready]:
    """Both lists, lane by lane. Within a lane, child work goes first every other turn."""
    ranks = {lane: rank for rank, lane in enumerate((SUSPECT, *_lanes(request)))}
    ranks |= {lane - CHILD: rank for lane, rank in ranks.items()}
    both = [*children, *others] if is_child_work_first(request.turn) else [*others, *children]
    both.sort(key=lambda ready: ranks[ready[2]])
    suspects = [ready for ready in both if ranks[ready[2]] == 0]
    return [*suspects[: request.suspects], *both[len(suspects) :]]


def _lanes(request: ClaimQuery) -> tuple[int, ...]:
    return BOTTOM_UP if is_from_bottom(request.turn) else TOP_DOWN


def _hand_out(
    transaction: Transaction, streams: list[OpenStream], seqs: list[int], consumer: str
) -> list[Claim]:
    connection, now_us = transaction.connection, transaction.now_us
    names = {each.number: each.stream for each in streams}
    number = new_number()
    array = listed(seqs)
    connection.change(message_statements.LEASE, (array, now_us, number, _worker(transaction, consumer)))
    rows, states, bodies = connection.row(message_statements.READ_LEASED, (array,))
    unpack_state, unpack_body = BulkRows(states), BulkRows(bodies)
    claims: dict[int, Claim] = {}
    started: dict[int, HeldKey] = {}
    taken = dict.fromkeys(names, 0)
    for seq, stream, id, priority, expires_us, key, until, child, state_length, body_length in unlisted(rows):
        stored, body = unpack_state.take(state_length), unpack_body.take(body_length) or b""
        try:
            state = FRESH if stored is None else decode_state(stored)
            problem = "" if REPLACED not in id else mend_id(connection, seq)
        except DECODE_ERRORS as error:
            state, problem = FRESH, f"its state cannot be read ({error}): {stored!r:.200}"
        if problem:
            id, body = readable_id(seq, id), b""
        claims[seq] = Claim(
            names[stream],
            id,
            body,
            RowToken(seq, number),
            now_us,
            state,
            priority,
            expires_us,
            bool(child),
            problem,
        )
        taken[stream] += 1
        if until == "started":
            started[seq] = (stream, key, id)
    for stream, count in taken.items():
        transaction.count(stream, FIRST_PRIORITY, -count)
        transaction.count(stream, RUNNING, count)
    _release_started(transaction, started)
    return [claims[seq] for seq in seqs]


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


def read_state(data: bytes | None) -> State:
    """The state to show to people. A message with an unreadable state becomes a dead letter at its claim."""
    return readable_state(data) or FRESH


def readable_state(data: bytes | None) -> State | None:
    """The decoded state; None: it cannot be read."""
    try:
        return FRESH if data is None else decode_state(data)
    except DECODE_ERRORS:
        return None
