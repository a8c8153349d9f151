"""Decides which events of a log a group draws: into its lane, parked behind another event of their key, or
passed over. A store that draws many events in one step reads them, asks here, and writes the choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.store import CLAIM_BYTES

from .deferred_keys import DeferredKeys
from .topic import DRAWN_AHEAD, may_park

#: How often one claim reads further along the log, for a group that has found only events that may not run.
ROUNDS: Final = 20

#: How often one claim reads the log for deferred keys, and how many events each read covers.
ROUNDS_BACK: Final = 5
LOOKED_BACK: Final = 2000


class LookBack(NamedTuple):
    """A part of the log to read for deferred keys: the first and the last number, and the keys."""

    start: int
    end: int
    keys: list[str]


class DrawingGroup(msgspec.Struct):
    """The state of a group that draws. It has not drawn its topic's whole log yet."""

    group: Stream
    stream: int
    topic: int
    position: int
    last: int
    ordered: bool
    again: int  # up to this number it may find events that it has drawn before
    parked: int
    wanted: int
    deferred: DeferredKeys
    room: int = CLAIM_BYTES

    @property
    def satisfied(self) -> bool:
        return self.wanted <= 0 or self.room <= 0

    @property
    def has_to_draw(self) -> bool:
        return not (self.satisfied or self.deferred.too_many) and self.position < self.last

    @property
    def has_to_catch_up(self) -> bool:
        """Whether it has to draw events of deferred keys from before its position."""
        return bool(self.deferred.drawable) and not self.satisfied

    def looks_ahead(self, round: int) -> int:
        """How many events to read and choose from. 0: the next events can be drawn without a choice. When a
        round found few events that may run, the next one reads further."""
        if round or self.ordered or self.deferred.keys:
            return min(self.wanted << round, DRAWN_AHEAD)
        return 0

    def look_back(self) -> LookBack:
        start = self.deferred.start()
        keys = [key for key, each in self.deferred.keys.items() if each.number >= start]
        return LookBack(start, min(start + LOOKED_BACK - 1, self.position), keys)

    def keys_to_count(self, ahead: Sequence[CandidateEvent]) -> list[str]:
        """The keys of which the choice must know how many events are parked."""
        if not (self.ordered or self.deferred.keys):
            return []
        return list({met.key for met in ahead if met.held})


class CandidateEvent(NamedTuple):
    """An event of the log, as the group sees it. `known`: 1: the group has the event; 2: and the event waits
    or runs there with its key. `held`: its key is held."""

    number: int
    id: str
    key: str
    length: int
    known: int
    held: bool


class DrawingChoice:
    """Meets events of the log in their order. `drawn`: the number of each event to draw, and whether it is
    parked. `ids`: the ids of these events. `keys`: the ids of those that take their key."""

    def __init__(self, behind: DrawingGroup, parked: dict[str, int]) -> None:
        """`parked`: how many events of each key are parked."""
        self._behind = behind
        self._parked = parked
        self._blocked: set[str] = set()
        self.drawn: list[tuple[int, bool]] = []
        self.ids: dict[str, int] = {}
        self.keys: dict[str, str] = {}

    @property
    def parked(self) -> int:
        return sum(waits for _, waits in self.drawn)

    # --- after the position ------------------------------------------------------------------------------

    def move_on(self, ahead: Sequence[CandidateEvent]) -> None:
        """Move the position over these events, until the group has enough."""
        behind = self._behind
        for met in ahead:
            if behind.satisfied or behind.deferred.too_many:
                break
            behind.position = met.number
            self._meet(met)

    def _meet(self, met: CandidateEvent) -> None:
        behind, key = self._behind, met.key
        known = met.known or self.ids.get(met.id, 0)
        if key in behind.deferred.keys:
            behind.deferred.pass_over(key, met.number)
        elif not behind.ordered or not key:
            if not known:
                self._draw(met)
        elif known:
            if self._comes_again(met, known):
                behind.deferred.pass_over(key, met.number)
        elif self._is_free(met) or may_park(self._parked.get(key, 0), behind.parked):
            self._draw(met, key)
        else:
            behind.deferred.pass_over(key, met.number)

    # --- before the position -----------------------------------------------------------------------------

    def catch_up(self, found: Sequence[CandidateEvent], part: LookBack) -> None:
        """Draw events of deferred keys that were found in this part of the log."""
        behind, looked = self._behind, part.end if len(found) < DRAWN_AHEAD else found[-1].number
        for met in found:
            if not behind.has_to_catch_up:
                looked = met.number - 1
                break
            self._meet_again(met, part.start)
        behind.deferred.looked_up_to(looked, behind.position)

    def _meet_again(self, met: CandidateEvent, start: int) -> None:
        deferred, key = self._behind.deferred, met.key
        if key in self._blocked or not deferred.is_due(key, met.number, start):
            return
        known = met.known or self.ids.get(met.id, 0)
        has_room = may_park(self._parked.get(key, 0), self._behind.parked, deferred=True)
        if not has_room or self._comes_again(met, known):
            self._blocked.add(key)
            deferred.stop_at(key, met.number)
            return
        deferred.met(key, met.number)
        if not known:
            self._draw(met, key)

    # --- both --------------------------------------------------------------------------------------------

    def _comes_again(self, met: CandidateEvent, known: int) -> bool:
        """Whether an event that the group already has must run once more, because the group was reset."""
        return known == 2 and met.number <= self._behind.again

    def _is_free(self, met: CandidateEvent) -> bool:
        return not met.held and met.key not in self.keys

    def _draw(self, met: CandidateEvent, key: str = "") -> None:
        waits = bool(key) and not self._is_free(met)
        self.drawn.append((met.number, waits))
        self.ids[met.id] = 2 if key else 1
        self._behind.room -= met.length
        if waits:
            self._behind.parked += 1
            self._parked[key] = self._parked.get(key, 0) + 1
            return
        self._behind.wanted -= 1
        if key:
            self.keys[key] = met.id
