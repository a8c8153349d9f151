"""The errors of decoding stored bytes: another program may have written them, or a disk has damaged them.

Code that decodes stored data catches these errors for each entry: one bad entry must not stop the others.
"""

from __future__ import annotations

from typing import Final

import msgspec

#: Invalid UTF-8 is a ValueError, not a DecodeError. The last two come from the user's own types.
DECODE_ERRORS: Final = (
    msgspec.DecodeError,
    RecursionError,
    MemoryError,
    ValueError,
    OverflowError,
    NotImplementedError,
    TypeError,
)


def text_of(data: bytes) -> str:
    """The bytes as text to show, also when they are no valid UTF-8."""
    return data.decode(errors="replace")
