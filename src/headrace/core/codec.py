"""Wrapping payloads on their way to the store: compression, signing, encryption."""

from __future__ import annotations

from typing import Protocol


class Codec(Protocol):
    """Turns encoded arguments and results into the bytes that are stored, and back.

    `decode` raises anything at all for bytes it does not accept; such a job goes to the dead letters with its
    bytes kept. Ids, task names and headers stay readable.
    """

    def encode(self, payload: bytes, /) -> bytes: ...
    def decode(self, data: bytes, /) -> bytes: ...
