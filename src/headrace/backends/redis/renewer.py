"""Renews leases from the keeper's thread, over a synchronous connection of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.core.backend import Renewal, Renewer
from headrace.core.claim import Claim
from headrace.core.errors import BackendUnavailable
from headrace.core.lease import DEFAULT_LEASE
from headrace.core.message import Stream

from .connection import Word
from .notices import Notices
from .scripts import RENEW
from .store import Store

#: Claims in one script.
ITEMS = 500

_UNKNOWN = b""
_RENEWALS = {
    b"k": Renewal.KEPT,
    b"l": Renewal.LOST,
    b"c": Renewal.CANCELLED,
    _UNKNOWN: Renewal.UNKNOWN,
}


class RedisRenewer(Renewer):
    def __init__(self, store: Store) -> None:
        self._store = store
        self._connection = store.connect_synchronously()
        self._notices = Notices()

    def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        renewals = [Renewal.LOST] * len(claims)
        default_lease: Word = DEFAULT_LEASE if after_outage else ""
        chunks = list(_chunks(claims))
        troubles: list[BackendUnavailable] = []
        for stream, chunk in chunks:
            try:
                answers = self._renew(stream, [claims[index] for index in chunk], default_lease)
            except BackendUnavailable as error:
                # A node of a cluster that is away must not cost the leases on all others.
                if not self._store.is_cluster:
                    raise
                self._notices.warn(f"leases of {stream.name!r} are not renewed: {error}")
                troubles.append(error)
                answers = [_UNKNOWN] * len(chunk)
            for index, answer in zip(chunk, answers, strict=True):
                renewals[index] = _RENEWALS[answer]
        if troubles and len(troubles) == len(chunks):
            raise troubles[0]
        return renewals

    def close(self) -> None:
        self._connection.close()

    def _renew(self, stream: Stream, claims: list[Claim], default_lease: Word) -> list[bytes]:
        words: list[Word] = [default_lease]
        for claim in claims:
            token = claim.token
            words += (claim.id, token.lane, token.entry, token.consumer)
        call = self._store.queue(stream).call(RENEW, *words)
        answers: list[bytes] = self._connection.run(call)
        return answers


def _chunks(claims: Sequence[Claim]) -> Iterator[tuple[Stream, list[int]]]:
    """The places of those of one stream, as many as one script may hold."""
    by_stream: dict[Stream, list[int]] = {}
    for index, claim in enumerate(claims):
        by_stream.setdefault(claim.source.stream, []).append(index)
    for stream, indices in by_stream.items():
        for start in range(0, len(indices), ITEMS):
            yield stream, indices[start : start + ITEMS]
