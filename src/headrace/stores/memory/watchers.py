"""Who waits for the end of which message."""

from __future__ import annotations

from headrace.core.records.record import Record

from .waiter import Waiter

#: Rung with the record of a message when it is over.
EndBell = Waiter[Record | None]


class Watchers(dict[str, list[EndBell]]):
    """The bells of each message, by its id."""

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
