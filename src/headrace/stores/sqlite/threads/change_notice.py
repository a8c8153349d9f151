"""The changes of a step that callers may be waiting for."""

from __future__ import annotations

from typing import Self

import msgspec

from headrace.stores.sql.wake_ups import WakeUps
from headrace.stores.sqlite.verbs.control import StoredNotice


class ChangeNotice(WakeUps):
    """A transaction of this process collects it, or the reader finds it after another process's commit."""

    announced: bool = False  # there are new control messages to read
    notices: list[StoredNotice] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.ready or self.ended or self.announced or self.notices)

    def add(self, other: Self) -> None:
        super().add(other)
        self.announced = self.announced or other.announced
        self.notices += other.notices
