"""Many values in one binding, and many rows in one.

The library gives up the interpreter's lock around every step of a statement. Beside a thread that computes,
each step then costs up to the switch interval of 5 ms: 500 rows inserted one by one took 960 ms, in one
statement 14 ms. So rows travel together: as a JSON array for `json_each`, with their bytes in one blob beside
it, and come back from `json_group_array` and `group_concat` the same way. It is no slower on an idle machine.
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
    """What `json_group_array` answered."""
    return _decode(array) if array else []


class BulkBinding:
    """Bytes to be bound as one blob; a row says which part of it is its own."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._end = 1  # SQL counts from 1

    def put(self, data: bytes | None) -> tuple[int | None, int]:
        """Where the bytes begin (None: there are none) and how many they are, for `substr`."""
        if data is None:
            return None, 0
        start = self._end
        self._parts.append(data)
        self._end += len(data)
        return start, len(data)

    def content(self) -> bytes:
        return b"".join(self._parts)


class BulkRows:
    """Takes a blob apart again, by the lengths that came beside it."""

    def __init__(self, blob: bytes | None) -> None:
        self._blob = blob or b""
        self._position = 0

    def take(self, length: int | None) -> bytes | None:
        if length is None:
            return None
        start = self._position
        self._position = start + length
        return self._blob[start : self._position]
