"""The verb `claim`: waits for messages, and hands back what a cancelled caller never received."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from time import monotonic
from typing import Any, Final

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import TimeSource
from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.limits.taking import claim_with_lines
from headrace.stores.postgres.session.session import Session
from headrace.stores.postgres.session.waiters import streams_and_topics
from headrace.stores.postgres.statements import limit_statements, message_statements
from headrace.stores.postgres.steps import PostgresSteps
from headrace.stores.postgres.topics.drawing import needs_of
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sql.settling import bury_of_another_queue, hand_back

from .claim import (
    are_lines_open,
    are_several_lines_open,
    claim,
    claims_of,
    line_claims_of,
    line_values_of,
    values_of,
)
from .settle import settle

#: After a look found that one statement will not do, so many claims go without another look: it costs a round
#: trip.
UNLOOKED: Final = 10


class PostgresClaims(PostgresSteps):
    def __init__(
        self, address: PostgresAddress, *, namespace: str, durability: str, clock: TimeSource
    ) -> None:
        super().__init__(address, namespace=namespace, durability=durability, clock=clock)
        self._turns = count(1)
        self._lined: set[tuple[Stream, ...]] = set()  # streams whose last claim brought some with constraints
        # How many claims from streams go without a look whether one statement will do
        self._unlooked: dict[tuple[Stream, ...], int] = {}
        self._giving_back: set[asyncio.Task[Any]] = set()  # the claims of cancelled callers

    async def claim(
        self,
        streams: Sequence[Stream],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        constrained: int | None = None,
        wait: float,
    ) -> list[Claim]:
        session = self._use()
        if self._giving_back:
            # What a cancelled claim of this process has taken is offered to the next one.
            await asyncio.wait(self._giving_back)
        children = limit if children is None else children
        constrained = limit if constrained is None else constrained
        query = ClaimQuery(
            *(streams, consumer, limit, suspects, next(self._turns), children, self._wants_order),
            constrained,
        )
        until = monotonic() + wait
        how = (limit > 0, suspects > 0, children > 0, constrained > 0)
        awaited = streams_and_topics(streams)
        with session.waiters.claiming_again(awaited, consumer, *how) as waiter:
            claims: list[Claim] = []
            while not session.closing:
                interval = session.waiters.interval
                if wait <= 0 or not waiter.knows_nothing_new(interval):
                    waiter.reset()
                    began = monotonic()
                    claims = await self._try_to_claim(session, query) if limit > 0 else []
                    waiter.looked_at = 0.0 if claims else began
                left = until - monotonic()
                if self._was_woken(consumer) or claims or left <= 0:
                    return claims
                rest = max(waiter.looked_at + interval - monotonic(), 0.0)
                await waiter.wait(min(left, rest))
        return []

    async def _try_to_claim(self, session: Session, query: ClaimQuery) -> list[Claim]:
        claiming = asyncio.ensure_future(self._claim(session, query))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            giving = session.start(self._give_back(session, claiming))
            self._giving_back.add(giving)
            giving.add_done_callback(self._giving_back.discard)
            raise

    async def _claim(self, session: Session, query: ClaimQuery) -> list[Claim]:
        if groups := query.groups:
            needs = await session.read(lambda connection: needs_of(connection, self._namespace, groups))
            if needs.drawing:
                return await session.write(
                    lambda transaction: claim(transaction, query, session.offset_us), durable=False
                )
            if not needs.claiming and len(groups) == len(query.streams):
                return []
        if not (self._lined and query.constrained > 0 and tuple(query.streams) in self._lined):
            values = values_of(self._namespace, query, session.offset_us)
            rows = await session.call(message_statements.CLAIM, values)
            if not are_lines_open(rows):
                return claims_of(rows, query, values)
        claims = await self._claim_line(session, query) or await session.write(
            lambda transaction: claim_with_lines(transaction, query), durable=False, lines=True
        )
        if any([claim.constraints is not None for claim in claims]):
            self._lined.add(tuple(query.streams))
        else:
            self._lined.discard(tuple(query.streams))
        return claims

    async def _claim_line(self, session: Session, query: ClaimQuery) -> list[Claim]:
        """Claim with one statement, where there is one line and nothing else; none: more is to be decided."""
        streams = tuple(query.streams)
        if unlooked := self._unlooked.pop(streams, 0):
            if unlooked > 1:
                self._unlooked[streams] = unlooked - 1
            return []
        values = line_values_of(self._namespace, query, session.offset_us)
        rows = await session.call(limit_statements.CLAIM_LINE, values)
        if are_several_lines_open(rows):
            self._unlooked[streams] = UNLOOKED
        claims, misplaced = line_claims_of(rows, query, values)
        if misplaced:
            settlements = [bury_of_another_queue(claim) for claim in misplaced]
            await session.write(lambda transaction: settle(transaction, settlements), durable=False)
        return claims

    async def _give_back(self, session: Session, claiming: asyncio.Future[list[Claim]]) -> None:
        """Hand back the claims of a caller that was cancelled and will never receive them. If this fails,
        their leases run out."""
        settlements = [hand_back(claim) for claim in await claiming]
        if settlements:
            await session.write(lambda transaction: settle(transaction, settlements), durable=False)
