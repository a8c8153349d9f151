"""The bounds of numbers in stored data.

Decoding refuses numbers out of bounds, and NaN: another program may have written them, and they must not
reach a clock, a timer or a store. `core/values/durations.py` and `core/values/whole_numbers.py` check the
numbers that users write by the same bounds.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from headrace.core.runtime.clock import SECOND

from .durations import LONGEST
from .whole_numbers import LARGEST

#: The longest span, in microseconds.
LONGEST_US: Final = round(LONGEST * SECOND)

#: Up to here every whole number is exact in Lua and in the scores of Redis: microseconds until the year 2255.
LATEST_US: Final = 1 << 53

#: A span of time.
Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]
SpanUs = Annotated[int, Meta(ge=0, le=LONGEST_US)]

#: A moment since 1970; 0: none.
MomentUs = Annotated[int, Meta(ge=0, le=LATEST_US)]

#: A number of things.
Count = Annotated[int, Meta(ge=0, le=LARGEST)]


def checked_span_us(us: int) -> int:
    """`us` if it is a valid span, else a `ValueError`: a script must not meet a bad span half-way."""
    if 0 <= us <= LONGEST_US:
        return us
    raise ValueError(f"{us} is no span from 0 to {LONGEST_US:,} microseconds (31 years)")
