"""Which ended jobs an app keeps in the history: the options `history` and `history_ttl`."""

from __future__ import annotations

from typing import Final

import msgspec

from headrace.core.encoding.codec import AppCodec
from headrace.core.errors import ConfigurationError
from headrace.core.history.recording import RingLimits
from headrace.core.runtime.clock import microseconds
from headrace.core.values.durations import Duration, positive_seconds

#: Bytes that the history of one queue may take, unless every job is kept.
RING_BYTES: Final = 16 * 1024 * 1024

#: The largest ring.
MOST_ENTRIES: Final = 1_000_000


class HistoryKeeping(msgspec.Struct, frozen=True):
    """`most`: how many jobs are kept of each queue; 0: none; None: all. `ttl_us`: for how long; 0: their time
    is not limited. `codec` opens and closes arguments, to mask secrets in them."""

    most: int | None = 0
    ttl_us: int = 0
    codec: AppCodec | None = None

    @property
    def every_job(self) -> bool:
        return self.most is None

    @property
    def limits(self) -> RingLimits:
        return RingLimits() if self.most is None else RingLimits(self.most, RING_BYTES)


NO_HISTORY: Final = HistoryKeeping()


def checked_history(history: object, ttl: Duration | None, codec: AppCodec | None) -> HistoryKeeping:
    """The options of an app, checked."""
    ttl_us = 0 if ttl is None else microseconds(positive_seconds("history_ttl", ttl))
    if history == "all":
        return HistoryKeeping(None, ttl_us, codec)
    if isinstance(history, int) and not isinstance(history, bool) and 0 <= history <= MOST_ENTRIES:
        return HistoryKeeping(history, ttl_us, codec)
    raise ConfigurationError(
        f"history is how many ended jobs are kept of each queue, from 0 to {MOST_ENTRIES:,}, or "
        f'"all", not {history!r}'
    )
