"""What a step changes of lines and budgets: messages that join or leave lines, and slots that come back."""

from __future__ import annotations

from collections import Counter

from headrace.core.messages.constraints import Constraints

#: A line: the number of its constraints, and its place.
LineKey = tuple[int, int]

#: The lines of a tenant: the number of their stream, their place, and the tenant.
TenantPlace = tuple[int, int, str]


class LineChanges:
    def __init__(self) -> None:
        self.moved: Counter[LineKey] = (
            Counter()
        )  # how many messages more; a line with 0 may have another first
        self.ended: set[int] = set()  # constraints of messages that have ended
        self.known: dict[int, Constraints] = {}  # constraints that the step need not read
        self.released: list[tuple[int, bool]] = []  # constraints of messages that no longer run; unstarted

    def __bool__(self) -> bool:
        return bool(self.moved or self.released or self.ended)
