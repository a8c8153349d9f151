"""Keeps the callers that wait for the end of a message."""

from __future__ import annotations

from headrace.core.records.record import Record

from .waiter import Waiter

#: Gets the record of a message when the message is over.
EndBell = Waiter[Record | None]


class Watchers(dict[str, list[EndBell]]):
    """The waiters of each message, by its id."""

    def add(self, id: str) -> EndBell:
        waiter: EndBell = Waiter()
        self.setdefault(id, []).append(waiter)
        return waiter

    def remove(self, id: str, waiter: EndBell) -> None:
        waiters = self.get(id, [])
        if waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self[id]
