"""What reading stored bytes can raise: anyone may have written them, or a disk has damaged them.

Whoever decodes what a store keeps catches these, entry by entry: one bad entry must not stop the others.
"""

from __future__ import annotations

from typing import Final

import msgspec

#: Invalid UTF-8 is a ValueError, not a DecodeError. The last two come from types of the user's.
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
    """Text that is to be shown, also where it is no valid UTF-8."""
    return data.decode(errors="replace")
