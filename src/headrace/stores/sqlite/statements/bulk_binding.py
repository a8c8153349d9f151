"""Packs many values into one binding, and unpacks many rows from one.

The library releases the interpreter's lock around every step of a statement. While another thread computes,
each step then costs up to the switch interval of 5 ms: 500 rows inserted one by one took 960 ms, in one
statement 14 ms. So rows travel together: as a JSON array for `json_each`, with their bytes in one blob beside
it. They come back from `json_group_array` and `group_concat` in the same form. On an idle machine this is not
slower.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Any]).decode


def listed(values: Iterable[object]) -> str:
    """Rows or values as the array that a statement reads with `json_each`."""
    return _encode(list(values)).decode()


def unlisted(array: str | None) -> list[Any]:
    """The rows or values in an array that `json_group_array` returned."""
    return _decode(array) if array else []


class BulkBinding:
    """Collects bytes that are bound as one blob. Each row says which part of the blob belongs to it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._end = 1  # SQL counts from 1

    def put(self, data: bytes | None) -> tuple[int | None, int]:
        """The start of the bytes (None: there are none) and their number, for `substr`."""
        if data is None:
            return None, 0
        start = self._end
        self._parts.append(data)
        self._end += len(data)
        return start, len(data)

    def content(self) -> bytes:
        return b"".join(self._parts)


class BulkRows:
    """Divides a blob again, by the lengths that came with it."""

    def __init__(self, blob: bytes | None) -> None:
        self._blob = blob or b""
        self._position = 0

    def take(self, length: int | None) -> bytes | None:
        if length is None:
            return None
        start = self._position
        self._position = start + length
        return self._blob[start : self._position]
