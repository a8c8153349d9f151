"""Numbers as they stand in what is stored.

Decoding refuses those that are out of bounds, NaN among them: a stranger may have written them, and no clock,
timer or store shall meet them. Where users write them, `core/values/durations.py` and
`core/values/whole_numbers.py` check them, by the same bounds.
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

#: A span.
Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]
SpanUs = Annotated[int, Meta(ge=0, le=LONGEST_US)]

#: A moment since 1970; 0: none.
MomentUs = Annotated[int, Meta(ge=0, le=LATEST_US)]

#: How many.
Count = Annotated[int, Meta(ge=0, le=LARGEST)]


def checked_span_us(us: int) -> int:
    """A span for a script, which must not find out half-way that it is none; else a `ValueError`."""
    if 0 <= us <= LONGEST_US:
        return us
    raise ValueError(f"{us} is no span from 0 to {LONGEST_US:,} microseconds (31 years)")
