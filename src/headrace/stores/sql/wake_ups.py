"""The changes of a step that callers may be waiting for."""

from __future__ import annotations

from typing import Self

import msgspec

from headrace.core.messages.message import Stream


class WakeUps(msgspec.Struct):
    ready: set[Stream] = msgspec.field(default_factory=set)  # something can be claimed from these
    ended: set[tuple[Stream, str]] = msgspec.field(default_factory=set)  # these messages are over

    def __bool__(self) -> bool:
        return bool(self.ready or self.ended)

    def add(self, other: Self) -> None:
        self.ready |= other.ready
        self.ended |= other.ended
