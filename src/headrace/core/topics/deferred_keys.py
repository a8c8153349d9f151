"""The deferred keys of an ordered group: their events are passed over, and drawn later."""

from __future__ import annotations

import msgspec

from .topic import HUNGRY_BELOW, KEYS_DEFERRED_MOST


class DeferredKey(msgspec.Struct):
    """`number`: no event of the key from there on was drawn. `passed`: how many of them were passed over, or
    more when some of them were trimmed."""

    number: int
    passed: int = 0


class DeferredKeys:
    """`hungry` are the keys of which more can be drawn."""

    def __init__(self, keys: dict[str, DeferredKey] | None = None, hungry: set[str] | None = None) -> None:
        self.keys = keys or {}
        self.hungry = hungry or set()

    def copy(self) -> DeferredKeys:
        keys = {key: DeferredKey(each.number, each.passed) for key, each in self.keys.items()}
        return DeferredKeys(keys, set(self.hungry))

    @property
    def too_many(self) -> bool:
        return len(self.keys) >= KEYS_DEFERRED_MOST

    @property
    def first(self) -> int | None:
        """The smallest number from which a key is deferred."""
        return min((each.number for each in self.keys.values()), default=None)

    def passed(self, up_to: int, first: int) -> int:
        """How many events up to a number were passed over and are not trimmed, as far as is known."""
        if not self.keys:
            return 0
        between = up_to - max(self.first or 0, first) + 1
        return max(min(sum(each.passed for each in self.keys.values()), between), 0)

    def start(self) -> int:
        """From which number on hungry keys are to be looked for."""
        return min(self.keys[key].number for key in self.hungry)

    def is_due(self, key: str, number: int, start: int) -> bool:
        """Whether the event is the next of a deferred key, for one who has looked at all from a start on."""
        deferred = self.keys.get(key)
        return deferred is not None and start <= deferred.number <= number

    def pass_over(self, key: str, number: int) -> None:
        self.keys.setdefault(key, DeferredKey(number)).passed += 1

    def note_room(self, key: str, parked: int) -> bool:
        """Of a key so many are parked now; answers whether it became hungry by that."""
        if key in self.keys and key not in self.hungry and parked < HUNGRY_BELOW:
            self.hungry.add(key)
            return True
        return False

    def met(self, key: str, number: int) -> None:
        """One event of a key was drawn, or found to be there."""
        deferred = self.keys[key]
        deferred.number = number + 1
        deferred.passed -= 1
        if deferred.passed <= 0:
            self._forget(key)

    def stop_at(self, key: str, number: int) -> None:
        """For the time being no more of a key can be drawn than what comes before this event."""
        self.keys[key].number = number
        self.hungry.discard(key)

    def looked_up_to(self, number: int, position: int) -> None:
        """All events of hungry keys up to a number were met; a key that has reached the position is done."""
        for key in list(self.hungry):
            deferred = self.keys[key]
            deferred.number = max(deferred.number, number + 1)
            if deferred.number > position:
                self._forget(key)

    def _forget(self, key: str) -> None:
        del self.keys[key]
        self.hungry.discard(key)
