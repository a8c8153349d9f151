"""Renews leases over a connection of its own, on an event loop that no handler can block."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import psycopg

from headrace.core.messages.claim import Claim
from headrace.core.records.answers import Renewal
from headrace.core.rules.lease import DEFAULT_LEASE, FOREVER
from headrace.core.runtime.clock import TimeSource
from headrace.core.store import LeaseKeeper
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.session import offset_of
from headrace.stores.postgres.session.silence import SilenceWatch
from headrace.stores.sql.settling import token_of

from .address import PostgresAddress
from .faults import REPEATABLE, is_lost, unavailable
from .statements import message_statements

#: How often a renewal is tried that the server rolled back because of another transaction.
ATTEMPTS: Final = 5


class PostgresLeaseKeeper(LeaseKeeper):
    def __init__(self, address: PostgresAddress, clock: TimeSource, *, pooled: bool | None) -> None:
        self._address = address
        self._clock = clock
        self._pooled = pooled
        self._connection: PostgresConnection | None = None
        self._lock = asyncio.Lock()

    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        if not claims:
            return []
        async with self._lock:
            for attempt in range(ATTEMPTS):
                try:
                    return await self._renew(claims, after_outage=after_outage)
                except REPEATABLE as error:
                    await self._drop()
                    if attempt == ATTEMPTS - 1:
                        raise unavailable(self._address.description, error) from error
                except psycopg.Error as error:
                    await self._drop()
                    uncertain = is_lost(error)
                    raise unavailable(self._address.description, error, uncertain=uncertain) from error
                except BaseException:
                    await self._drop()
                    raise
        raise AssertionError("not reached")

    async def close(self) -> None:
        async with self._lock:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _renew(self, claims: Sequence[Claim], *, after_outage: bool) -> list[Renewal]:
        connection = self._connection
        if connection is None:
            connection = await PostgresConnection.open(self._address, pooled=self._pooled)
            self._connection = connection
        with SilenceWatch(connection, self._address):
            return await self._renew_on(connection, claims, after_outage=after_outage)

    async def _renew_on(
        self, connection: PostgresConnection, claims: Sequence[Claim], *, after_outage: bool
    ) -> list[Renewal]:
        # A crash of the server that undoes a renewal begins all leases anew.
        row = await connection.run(
            f"{connection.begin}; SELECT headrace.now_us({offset_of(self._clock):d})"
            " FROM headrace.set_durability('off')"  # nosec B608 # constants only
        )
        now_us = int(row[0]) if row else 0
        held = [(token_of(claim).stream, claim.id, token_of(claim).claim) for claim in claims]
        rows = await connection.rows(message_statements.RENEW, (*columns(sorted(set(held))), now_us))
        if after_outage:
            streams = list({stream for stream, _, _ in held})
            values = (streams, now_us, FOREVER, DEFAULT_LEASE)
            await connection.change(message_statements.RESTART_LEASES, values)
        await connection.change("COMMIT")
        kept = {(stream, id, number): cancelled for stream, id, number, cancelled in rows}
        return [_answer(kept.get(each)) for each in held]


def _answer(cancelled: bool | None) -> Renewal:
    if cancelled is None:
        return Renewal.LOST
    return Renewal.CANCELLED if cancelled else Renewal.KEPT
