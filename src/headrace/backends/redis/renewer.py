"""Renews leases from the keeper's thread, over a synchronous connection of its own."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.backend import Renewal, Renewer
from headrace.core.claim import Claim
from headrace.core.message import Stream

from .connection import Word
from .scripts import RENEW
from .store import Store, run_synchronously

#: Claims in one script.
ITEMS = 500

_RENEWALS = {b"k": Renewal.KEPT, b"l": Renewal.LOST, b"c": Renewal.CANCELLED}


class RedisRenewer(Renewer):
    def __init__(self, store: Store) -> None:
        self._store = store
        self._connection = store.connect_synchronously()

    def renew(self, claims: Sequence[Claim]) -> list[Renewal]:
        renewals = [Renewal.LOST] * len(claims)
        by_stream: dict[Stream, list[int]] = {}
        for index, claim in enumerate(claims):
            by_stream.setdefault(claim.source.stream, []).append(index)
        for stream, indices in by_stream.items():
            for start in range(0, len(indices), ITEMS):
                chunk = indices[start : start + ITEMS]
                answers = self._renew(stream, [claims[index] for index in chunk])
                for index, answer in zip(chunk, answers, strict=True):
                    renewals[index] = _RENEWALS[answer]
        return renewals

    def close(self) -> None:
        self._connection.close()

    def _renew(self, stream: Stream, claims: list[Claim]) -> list[bytes]:
        words: list[Word] = []
        for claim in claims:
            token = claim.token
            words += (claim.id, token.lane, token.entry, token.consumer)
        call = self._store.queue(stream).call(RENEW, *words)
        answers: list[bytes] = run_synchronously(self._connection, call, self._store.server_name)
        return answers
