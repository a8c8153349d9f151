"""What a batch handler may return to say that single events failed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class BatchResult(msgspec.Struct, frozen=True):
    """`failed` has the events of the list that failed, by index, each with its error: an exception or a text.
    All others succeeded."""

    failed: Mapping[int, BaseException | str] = {}
