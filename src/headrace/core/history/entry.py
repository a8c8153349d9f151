"""One entry of the history, as stores keep it."""

from __future__ import annotations

from typing import Final

import msgspec

from headrace.core.values.bounds import MomentUs

#: The bytes that an entry takes in a store in addition to its content, roughly.
BESIDE: Final = 150


class HistoryEntry(msgspec.Struct, frozen=True):
    """A job that has ended. `content` is an encoded `EndedJob`; a store does not look inside.
    `until_us`: until when it is kept; 0: its time is not limited."""

    id: str
    task: str
    status: str
    ended_us: MomentUs
    content: bytes
    until_us: MomentUs = 0

    @property
    def size(self) -> int:
        """Roughly the bytes that the entry takes in a store."""
        return BESIDE + len(self.content)

    @property
    def key(self) -> tuple[int, str]:
        """The place of the entry in a listing. The entry with the greatest key comes first."""
        return self.ended_us, self.id

    def is_past(self, now_us: int) -> bool:
        return 0 < self.until_us <= now_us
