"""Keeps the callers that wait for the end of a message."""

from __future__ import annotations

from headrace.core.records.record import Record

from .waiter import Waiter

#: Gets the record of a message when the message is over.
EndBell = Waiter[Record | None]


class Watchers(dict[str, list[EndBell]]):
    """The waiters of each message, by its id."""

    def add(self, id: str) -> EndBell:
        bell: EndBell = Waiter()
        self.setdefault(id, []).append(bell)
        return bell

    def remove(self, id: str, bell: EndBell) -> None:
        bells = self.get(id, [])
        if bell in bells:
            bells.remove(bell)
            if not bells:
                del self[id]
