"""The changes of a step that callers may be waiting for."""

from __future__ import annotations

import msgspec

from headrace.core.messages.message import Stream
from headrace.stores.sqlite.verbs.control import StoredNotice


class ChangeNotice(msgspec.Struct):
    """A transaction of this process collects it, or the reader finds it after another process's commit."""

    ready: set[Stream] = msgspec.field(default_factory=set)  # something can be claimed from these
    ended: set[tuple[Stream, str]] = msgspec.field(default_factory=set)  # these messages are over
    announced: bool = False  # there are new control messages to read
    notices: list[StoredNotice] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.ready or self.ended or self.announced or self.notices)

    def add(self, other: ChangeNotice) -> None:
        self.ready |= other.ready
        self.ended |= other.ended
        self.announced = self.announced or other.announced
        self.notices += other.notices
