"""The deferred keys of an ordered group: their events are passed over, and drawn later."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .topic import DRAWABLE_BELOW, KEYS_DEFERRED_MOST

#: A deferred key in a table: the key, `number`, `passed`, and whether it is drawable.
DeferredRow = tuple[str, int, int, bool]


class DeferredKey(msgspec.Struct):
    """A key whose events are passed over. `number`: no event of the key from this number on was drawn.
    `passed`: how many of them were passed over, or more when some of them were trimmed."""

    number: int
    passed: int = 0


class DeferredKeys:
    """All deferred keys of a group. `drawable` are the keys of which more events can be drawn."""

    def __init__(self, keys: dict[str, DeferredKey] | None = None, drawable: set[str] | None = None) -> None:
        self.keys: dict[str, DeferredKey] = keys or {}
        self.drawable: set[str] = drawable or set()

    @classmethod
    def of(cls, rows: Iterable[DeferredRow]) -> DeferredKeys:
        keys: dict[str, DeferredKey] = {}
        drawable: set[str] = set()
        for key, number, passed, is_drawable in rows:
            keys[key] = DeferredKey(number, passed)
            if is_drawable:
                drawable.add(key)
        return cls(keys, drawable)

    def rows(self) -> dict[str, DeferredRow]:
        return {key: (key, each.number, each.passed, key in self.drawable) for key, each in self.keys.items()}

    def changes_since(self, before: DeferredKeys) -> tuple[list[DeferredRow], list[str]]:
        """The rows that are new or have changed, and the keys that are gone."""
        old, new = before.rows(), self.rows()
        return [row for key, row in new.items() if row != old.get(key)], list(old.keys() - new.keys())

    def copy(self) -> DeferredKeys:
        keys = {key: DeferredKey(each.number, each.passed) for key, each in self.keys.items()}
        return DeferredKeys(keys, set(self.drawable))

    @property
    def too_many(self) -> bool:
        return len(self.keys) >= KEYS_DEFERRED_MOST

    @property
    def first(self) -> int | None:
        """The smallest number from which a key is deferred."""
        return min((each.number for each in self.keys.values()), default=None)

    def passed(self, up_to: int, first: int) -> int:
        """About how many events up to a number were passed over and are not trimmed."""
        if not self.keys:
            return 0
        between = up_to - max(self.first or 0, first) + 1
        return max(min(sum(each.passed for each in self.keys.values()), between), 0)

    def start(self) -> int:
        """The number from which events of drawable keys are read."""
        return min(self.keys[key].number for key in self.drawable)

    def is_due(self, key: str, number: int, start: int) -> bool:
        """Whether the event is the next of a deferred key, when all events from `start` on were read."""
        deferred = self.keys.get(key)
        return deferred is not None and start <= deferred.number <= number

    def pass_over(self, key: str, number: int) -> None:
        self.keys.setdefault(key, DeferredKey(number)).passed += 1

    def note_room(self, key: str, parked: int) -> bool:
        """Note how many events of a key are parked now; answers whether that made the key drawable."""
        if key in self.keys and key not in self.drawable and parked < DRAWABLE_BELOW:
            self.drawable.add(key)
            return True
        return False

    def met(self, key: str, number: int) -> None:
        """Note that one event of a key was drawn, or that the group already has it."""
        deferred = self.keys[key]
        deferred.number = number + 1
        deferred.passed -= 1
        if deferred.passed <= 0:
            self._forget(key)

    def stop_at(self, key: str, number: int) -> None:
        """Note that for now only events of the key before this one can be drawn."""
        self.keys[key].number = number
        self.drawable.discard(key)

    def looked_up_to(self, number: int, position: int) -> None:
        """Note that all events of drawable keys up to a number were met. A key that has reached the position
        is no longer deferred."""
        for key in list(self.drawable):
            deferred = self.keys[key]
            deferred.number = max(deferred.number, number + 1)
            if deferred.number > position:
                self._forget(key)

    def _forget(self, key: str) -> None:
        del self.keys[key]
        self.drawable.discard(key)
