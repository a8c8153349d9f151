"""Whether what a group has claimed may be handled yet.

A claim waits at all generations of a topic, for as long as it likes. What it brings may come too early: an
ordered group was set back in an older generation meanwhile. That is handed back, and its key stays taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from headrace.core.backend import Backend
from headrace.core.claim import Claim
from headrace.core.layout import whole_stream
from headrace.core.message import Source, Stream, group_stream
from headrace.core.outcome import Released, Settlement

from .group_gate import Gate
from .topic_places import Ranks


class ClaimPlaces:
    """Where a claim may look: parts, for how many seconds that holds (endless: until the layout changes), and
    the generations of ordered groups."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.hold_for = inf
        self.ordered: dict[Stream, Ranks] = {}

    def add(self, parts: Iterable[Stream], hold_for: float | None) -> None:
        self.sources += map(Source, parts)
        self.hold_for = min(self.hold_for, inf if hold_for is None else hold_for)


class Admission:
    def __init__(self, inner: Backend, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate
        #: Claims of a consumer of which nobody could see yet whether they come too early.
        self._unseen: dict[str, list[Claim]] = {}

    async def admit(self, claims: list[Claim], places: ClaimPlaces, consumer: str) -> list[Claim]:
        """Those that may be handled now."""
        if not claims or not places.ordered:
            return claims
        try:
            closed = await self._closed_parts(claims, places)
            early = [claim for claim in claims if claim.source.stream in closed]
            await self._hand_back(early)
        except BaseException:
            self._unseen[consumer] = claims
            raise
        return [claim for claim in claims if claim.source.stream not in closed] if early else claims

    async def _closed_parts(self, claims: list[Claim], places: ClaimPlaces) -> set[Stream]:
        streams = {claim.source.stream for claim in claims}
        closed: set[Stream] = set()
        for group, ranks in places.ordered.items():
            claimed = {each.topic for each in streams if each.kind == "group" and whole_stream(each) == group}
            parts = await self._gate.closed_parts(group, ranks, claimed)
            closed.update(group_stream(part, group.group) for part in parts)
        return closed

    async def hand_back_unseen(self, consumer: str) -> None:
        """What this consumer holds and was not given, because the store went away in between. If somebody
        else has it by now, it stays there."""
        if consumer in self._unseen:
            await self._hand_back(self._unseen[consumer])
            del self._unseen[consumer]

    async def _hand_back(self, claims: Sequence[Claim]) -> None:
        if claims:
            await self._inner.settle([Settlement(claim, Released(claim.state)) for claim in claims])
