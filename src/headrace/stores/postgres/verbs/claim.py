"""Claims queued messages: draws for groups that are behind, hands out what is ready, builds the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.message import FRESH, Stream, decode_state
from headrace.core.rules.lanes import is_child_work_first
from headrace.core.store import CLAIM_BYTES
from headrace.stores.postgres.session.connection import Row
from headrace.stores.postgres.session.transaction import PostgresTransaction, new_number
from headrace.stores.postgres.statements import message_statements
from headrace.stores.postgres.topics.drawing import draw
from headrace.stores.postgres.topics.groups import revive
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sql.lanes import SUSPECT
from headrace.stores.sql.limits.budgets import UNREADABLE, constraints_of
from headrace.stores.sql.settling import RowToken


def values_of(namespace: str, query: ClaimQuery, offset_us: int) -> list[object]:
    """The values of `message_statements.CLAIM`."""
    streams = query.streams_in_turn
    return [
        namespace,
        [stream.kind for stream in streams],
        [stream.name for stream in streams],
        query.consumer,
        query.limit,
        min(query.suspects, query.limit),
        min(query.children, query.limit),
        [SUSPECT, *query.lanes],
        is_child_work_first(query.turn),
        new_number(),
        offset_us,
        CLAIM_BYTES,
        query.constrained > 0,
    ]


def are_lines_open(rows: list[Row]) -> bool:
    """Whether `headrace.claim` did nothing, because messages with constraints can be claimed."""
    return bool(rows) and rows[0][0] == 0


def claims_of(rows: list[Row], query: ClaimQuery, values: Sequence[object]) -> list[Claim]:
    """The claims that `headrace.claim` answered to these values."""
    streams, number = query.streams_in_turn, cast(int, values[9])
    return [claim_of(streams[position - 1], number, *row) for _, position, *row in rows]


def line_values_of(namespace: str, query: ClaimQuery, offset_us: int) -> list[object]:
    """The values of `limit_statements.CLAIM_LINE`."""
    streams = query.streams_in_turn
    return [
        namespace,
        [stream.kind for stream in streams],
        [stream.name for stream in streams],
        query.consumer,
        min(query.limit, query.constrained),
        list(query.lanes),
        new_number(),
        offset_us,
        CLAIM_BYTES,
    ]


def are_several_lines_open(rows: list[Row]) -> bool:
    """Whether `headrace.claim_line` did nothing although a line is open. It will not do the next ones either,
    most of the time."""
    return bool(rows) and rows[0][0] == 0 and rows[0][1] > 0


def line_claims_of(
    rows: list[Row], query: ClaimQuery, values: Sequence[object]
) -> tuple[list[Claim], list[Claim]]:
    """The claims that `headrace.claim_line` answered to these values: all have the same constraints. And
    those of damaged rows, which are in another queue than the line."""
    if not rows or rows[0][0] == 0:
        return [], []
    streams, number, constraints = query.streams_in_turn, cast(int, values[6]), constraints_of(rows[0][-1])
    good: list[Claim] = []
    bad: list[Claim] = []
    for _, position, *row, _ in rows:
        stream = streams[(position or 1) - 1]
        (good if position else bad).append(claim_of(stream, number, *(*row, constraints)))
    return good, bad


def claim_of(
    stream: Stream,
    number: int,
    stream_number: int,
    seq: int,
    id: str,
    body: bytes | None,
    stored: bytes | None,
    priority: int,
    expires_us: int,
    child: bool,
    claimed_us: int,
    tid: bytes,
    constraints: Constraints | None = None,
) -> Claim:
    try:
        state, problem = FRESH if stored is None else decode_state(stored), ""
    except DECODE_ERRORS as error:
        state, body, problem = FRESH, b"", f"its state cannot be read ({error}): {stored!r:.200}"
    if constraints is UNREADABLE:
        problem = "its constraints cannot be read"
    token = RowToken(stream_number, seq, number, tid)
    return Claim(
        *(stream, id, body or b"", token, claimed_us, state, priority, expires_us, child),
        *(constraints, problem),
    )


async def claim(transaction: PostgresTransaction, query: ClaimQuery, offset_us: int) -> list[Claim]:
    """Draw events for the groups that are behind, and claim. The next claim takes from lines: a step that has
    locked a group must not wait for the lock of lines."""
    await revive(transaction, query.groups, query.wants_order)
    await draw(transaction, query.groups, query.limit)
    values = [*values_of(transaction.namespace, query, offset_us)[:-1], False]
    return claims_of(await transaction.rows(message_statements.CLAIM, values), query, values)
