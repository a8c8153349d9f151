"""Renews leases on its own connection. It blocks its event loop, which serves only this purpose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw

from headrace.core.messages.claim import Claim
from headrace.core.records.answers import Renewal
from headrace.core.rules.lease import DEFAULT_LEASE, FOREVER
from headrace.core.runtime.clock import TimeSource
from headrace.core.store import LeaseKeeper
from headrace.stores.sql.settling import token_of
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.connection.schema import bring_up_to_date
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted

from .statements import upkeep_statements

#: Milliseconds to wait for the write lock. The keeper tries again long before a lease runs out.
BUSY_TIMEOUT: Final = 2000


class SqliteLeaseKeeper(LeaseKeeper):
    def __init__(self, path: Path, clock: TimeSource) -> None:
        self._clock = clock
        # No wait for the disk: a power failure that undoes a renewal ends the worker too.
        self._connection = Connection(
            path, synchronous="NORMAL", busy_timeout=BUSY_TIMEOUT, prepare=bring_up_to_date
        )

    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        with self._connection.in_use:
            try:
                return self._renew(claims, after_outage=after_outage) if claims else []
            except apsw.Error as error:
                raise self._connection.failed(error) from error
            finally:
                self._connection.undo()  # after a commit there is nothing to undo

    async def close(self) -> None:
        with self._connection.in_use:
            self._connection.close()

    def _renew(self, claims: Sequence[Claim], *, after_outage: bool) -> list[Renewal]:
        connection = self._connection
        connection.open()
        connection.begin()
        seqs = listed(token_of(claim).seq for claim in claims)
        rows = unlisted(connection.value(upkeep_statements.READ_RUNNING, (seqs,)))
        running = {(seq, number): cancelled for seq, number, cancelled in rows}
        answers = [_answer(running.get(token_of(claim)[1:3])) for claim in claims]
        kept = [
            token_of(claim).seq
            for claim, answer in zip(claims, answers, strict=True)
            if answer is not Renewal.LOST
        ]
        if kept:
            connection.change(upkeep_statements.RENEW, (listed(kept), self._clock.now_us()))
        if after_outage:
            connection.change(
                upkeep_statements.RESTART_LEASES, (seqs, self._clock.now_us(), FOREVER, DEFAULT_LEASE)
            )
        connection.commit()
        return answers


def _answer(cancelled: int | None) -> Renewal:
    if cancelled is None:
        return Renewal.LOST
    return Renewal.CANCELLED if cancelled else Renewal.KEPT
