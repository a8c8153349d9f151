"""What a handler of batches may return: single events apart from the rest."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class BatchResult(msgspec.Struct, frozen=True):
    """`failed` are those of the list that failed, by their index, each with its error: an exception, or a
    text. The others are done with."""

    failed: Mapping[int, BaseException | str] = {}
