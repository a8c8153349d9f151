"""A rate: how many starts are allowed in a span of time, evenly spaced except for a burst (GCRA)."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import SECOND

#: The units of a rate, in seconds.
UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

#: The burst of a rate that names none: the starts of this many microseconds.
DEFAULT_BURST_US: Final = SECOND // 10

#: When messages wait for tokens, the store looks for them this late at most, in microseconds. So it takes
#: several tokens in one step. It is never so late that a token is lost.
GATHER_US: Final = 20_000

#: The most starts in a unit. More cannot be told apart on a clock of microseconds.
MOST: Final = 1_000_000_000

#: A stored number outside these bounds is damaged.
_Number = Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]

_PATTERN = re.compile(r"(\d{1,10})\s*/\s*([smhd])")


class Rate(msgspec.Struct, frozen=True):
    """`count` starts in `per_us` microseconds. `burst` of them may come at once.

    A limit with a rate keeps one moment, its *next moment*: when the tokens that were spent are paid for. In
    any span of `per_us` there are at most `count` + `burst` starts.
    """

    count: _Number
    per_us: _Number
    burst: _Number

    @classmethod
    def parse(cls, text: object, burst: int | None = None) -> Rate:
        match = _PATTERN.fullmatch(text) if isinstance(text, str) else None
        if match is None or not 0 < int(match[1]) <= MOST:
            raise ConfigurationError(
                f'a rate is a number and a unit, such as "100/s", "20/m", "5/h" or "1/d", not {text!r}'
            )
        count, per_us = int(match[1]), UNITS[match[2]] * SECOND
        return cls(count, per_us, burst or max(1, count * DEFAULT_BURST_US // per_us))

    def cost_us(self, starts: int) -> int:
        """The time that so many tokens take to come back. Rounded up, so that the rate is never exceeded."""
        return -(-starts * self.per_us // self.count)

    def bounded(self, next_us: int, now_us: int) -> int:
        """The next moment to store. It is at most a full burst ahead, unless the clock was set back."""
        return min(next_us, now_us + self.cost_us(self.burst))

    def allowed(self, next_us: int, now_us: int) -> int:
        """How many starts are allowed now."""
        room_us = self._tolerance_us - max(0, next_us - now_us)
        return 0 if room_us < 0 else room_us * self.count // self.per_us + 1

    def spent(self, next_us: int, now_us: int, starts: int = 1) -> int:
        """The next moment after so many starts; below zero: tokens come back."""
        return max(next_us, now_us) + self.cost_us(starts)

    def opens_us(self, next_us: int, now_us: int) -> int:
        """When to look for tokens again."""
        return max(now_us, next_us - self._tolerance_us) + min(GATHER_US, self._tolerance_us // 2)

    @property
    def _tolerance_us(self) -> int:
        """How far the next moment may be ahead of a start."""
        return (self.burst - 1) * self.per_us // self.count

    def __str__(self) -> str:
        units = [unit for unit, seconds in UNITS.items() if seconds * SECOND == self.per_us]
        return f"{self.count}/{units[0] if units else f'{self.per_us} µs'}"
