"""Renews leases over its own connection, which is made on the event loop that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import cast

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.records.answers import Renewal
from headrace.core.rules.lease import DEFAULT_LEASE
from headrace.core.store import LeaseKeeper
from headrace.stores.redis.client.connection import Word
from headrace.stores.redis.entries import EntryToken
from headrace.stores.redis.scripts import RENEW
from headrace.stores.redis.server.notices import Notices
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import ScriptCall

#: Claims in one script.
ITEMS = 500

#: A stream, and the indices of some of its claims in the list of all claims.
Chunk = tuple[Stream, list[int]]

_UNKNOWN = b""
_RENEWALS = {
    b"k": Renewal.KEPT,
    b"l": Renewal.LOST,
    b"c": Renewal.CANCELLED,
    _UNKNOWN: Renewal.UNKNOWN,
}


class RedisLeaseKeeper(LeaseKeeper):
    def __init__(self, store: RedisServer) -> None:
        self._store = store
        self._notices = Notices()

    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        if not self._store.life.on_own_loop:
            self._store.begin()
        renewals = [Renewal.LOST] * len(claims)
        chunks = list(_chunks(claims))
        calls = [
            self._call(stream, [claims[index] for index in chunk], after_outage=after_outage)
            for stream, chunk in chunks
        ]
        for (_, chunk), answers in zip(chunks, await self._run(calls, chunks), strict=True):
            for index, answer in zip(chunk, answers, strict=True):
                renewals[index] = _RENEWALS[answer]
        return renewals

    async def close(self) -> None:
        if self._store.life.is_open:
            self._store.leave()

    def _call(self, stream: Stream, claims: list[Claim], *, after_outage: bool) -> ScriptCall:
        words: list[Word] = [DEFAULT_LEASE if after_outage else ""]
        for claim in claims:
            token = cast(EntryToken, claim.token)
            words += (claim.id, token.lane, token.entry, token.consumer)
        return self._store.queue(stream).call(RENEW, *words)

    async def _run(self, calls: list[ScriptCall], chunks: list[Chunk]) -> list[list[bytes]]:
        if not self._store.is_cluster:
            return await self._store.run_all(calls) if calls else []
        # A cluster node that cannot be reached must not cost the leases on the other nodes.
        answers = await asyncio.gather(*map(self._store.run, calls), return_exceptions=True)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        if errors and (len(errors) == len(answers) or not _are_outages(errors)):
            raise errors[0]
        return [
            self._unknown(chunk, answer) if isinstance(answer, BaseException) else answer
            for chunk, answer in zip(chunks, answers, strict=True)
        ]

    def _unknown(self, chunk: Chunk, error: BaseException) -> list[bytes]:
        stream, indices = chunk
        self._notices.warn(f"leases of {stream.name!r} are not renewed: {error}")
        return [_UNKNOWN] * len(indices)


def _are_outages(errors: Sequence[BaseException]) -> bool:
    return all(isinstance(error, BackendUnavailable) for error in errors)


def _chunks(claims: Sequence[Claim]) -> Iterator[Chunk]:
    """The indices of the claims by stream, as many as one script may hold."""
    by_stream: dict[Stream, list[int]] = {}
    for index, claim in enumerate(claims):
        by_stream.setdefault(claim.stream, []).append(index)
    for stream, indices in by_stream.items():
        for start in range(0, len(indices), ITEMS):
            yield stream, indices[start : start + ITEMS]
