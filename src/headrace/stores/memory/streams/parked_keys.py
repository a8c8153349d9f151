"""Keeps the keys of a queue or an ordered group: which entry holds each key, and which are parked."""

from __future__ import annotations

from .entry import Entry


class ParkedKeys:
    """One entry holds a key, from `let_in` until the entry's end, whatever happens in between. Other entries
    of the key are parked meanwhile, in one line for each key."""

    def __init__(self) -> None:
        self._holders: dict[str, Entry] = {}
        self._lines: dict[str, dict[str, Entry]] = {}  # by key, by id, in the order of arrival
        self._parked = 0

    def __len__(self) -> int:
        """How many entries are parked."""
        return self._parked

    def count(self, key: str) -> int:
        """How many entries of a key are parked."""
        return len(self._lines.get(key, ()))

    def is_free(self, key: str) -> bool:
        return key not in self._holders

    def has(self, entry: Entry) -> bool:
        """Whether an entry holds its key or is parked."""
        key, id = entry.message.key, entry.message.id
        return self._holders.get(key) is entry or id in self._lines.get(key, ())

    def is_parked(self, entry: Entry) -> bool:
        return entry.message.id in self._lines.get(entry.message.key, ())

    def parked(self) -> list[Entry]:
        return [entry for line in self._lines.values() for entry in line.values()]

    def let_in(self, entry: Entry) -> bool:
        """Give an entry its key. False: another entry holds the key, and this one is parked."""
        message = entry.message
        if not message.key:
            return True
        if self._holders.setdefault(message.key, entry) is entry:
            return True
        self._lines.setdefault(message.key, {})[message.id] = entry
        self._parked += 1
        return False

    def pass_on(self, entry: Entry) -> Entry | None:
        """The entry has ended. Returns the parked entry that gets its key, if there is one."""
        key = entry.message.key
        if self._holders.get(key) is not entry:
            return None
        line = self._lines.get(key)
        if not line:
            del self._holders[key]
            return None
        following = self._holders[key] = next(iter(line.values()))
        self.take_out(following)
        return following

    def take_out(self, entry: Entry) -> bool:
        """Remove a parked entry; False: it is not parked."""
        key = entry.message.key
        line = self._lines.get(key)
        if not line or line.pop(entry.message.id, None) is None:
            return False
        self._parked -= 1
        if not line:
            del self._lines[key]
        return True

    def first(self) -> Entry | None:
        """One of the parked entries."""
        line = next(iter(self._lines.values()), None)
        return next(iter(line.values())) if line else None

    def oldest_us(self) -> int:
        """When the oldest parked entry was written, or became ready; 0: none is parked."""
        fronts = [next(iter(line.values())) for line in self._lines.values()]
        return min((entry.written_us or entry.since_us for entry in fronts), default=0)
