"""Claims of parts: outside they are claims of the whole stream, with the claim of the part as their token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headrace.core.backend import LeaseKeeper, Renewal
from headrace.core.claim import Claim, Report
from headrace.core.message import Source, Stream
from headrace.core.outcome import Settlement


def wrap(claims: list[Claim], logical: Mapping[Stream, Source]) -> list[Claim]:
    """Those of whole streams are left as they are."""
    return [
        claim if (source := logical.get(claim.source.stream)) is None else _wrapped(claim, source)
        for claim in claims
    ]


def _wrapped(claim: Claim, source: Source) -> Claim:
    return Claim(
        source,
        claim.id,
        claim.body,
        claim,
        claim.claimed_us,
        claim.state,
        claim.priority,
        claim.expires_us,
        claim.child,
    )


def unwrap(claim: Claim) -> Claim:
    inner = claim.token
    return inner if type(inner) is Claim else claim


def unwrap_settlements(settlements: Sequence[Settlement]) -> list[Settlement]:
    return [
        Settlement(each.claim.token, each.outcome) if type(each.claim.token) is Claim else each
        for each in settlements
    ]


def unwrap_reports(reports: Sequence[Report]) -> list[Report]:
    return [
        msgspec.structs.replace(each, claim=each.claim.token) if type(each.claim.token) is Claim else each
        for each in reports
    ]


class PartitionedLeaseKeeper(LeaseKeeper):
    def __init__(self, inner: LeaseKeeper) -> None:
        self._inner = inner

    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        return await self._inner.renew([unwrap(claim) for claim in claims], after_outage=after_outage)

    async def close(self) -> None:
        await self._inner.close()
