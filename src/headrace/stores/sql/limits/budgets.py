"""Decides what limits allow: slots and tokens of the budgets that a step uses."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.limits.figures import LimitFigures
from headrace.core.limits.rate import Rate
from headrace.core.messages.constraints import Constraints, LimitKey

#: Microseconds between two looks for tokens, at least.
LOOK_US: Final = 1000

#: Stands for constraints that cannot be read. A claim of such a message is unreadable.
UNREADABLE: Final = Constraints()

_decode_figures = msgspec.json.Decoder(LimitFigures).decode
_decode_constraints = msgspec.json.Decoder(Constraints).decode
_encode = msgspec.json.Encoder().encode


def stored_figures(figures: LimitFigures) -> str:
    return _encode(figures).decode()


def figures_of(stored: str | bytes | None) -> LimitFigures | None:
    """None: there are none, or they cannot be read."""
    try:
        return _decode_figures(stored) if stored else None
    except DECODE_ERRORS:
        return None


def stored_constraints(constraints: Constraints) -> str:
    return _encode(constraints).decode()


def constraints_of(stored: str) -> Constraints:
    try:
        return _decode_constraints(stored)
    except DECODE_ERRORS:
        return UNREADABLE


class Budget(msgspec.Struct):
    """A limit, or one key of it. `timer_us`: when tokens are looked for; 0: no line waits for tokens."""

    number: int
    key: LimitKey
    running: int
    next_us: int  # see `Rate`
    timer_us: int
    figures: LimitFigures | None
    blocks: bool = False  # it may block lines

    @property
    def rate(self) -> Rate | None:
        return self.figures.rate if self.figures else None

    def tokens(self, now_us: int) -> int:
        """How many starts its rate allows now."""
        rate = self.rate
        if rate is None:
            return 1
        self.next_us = rate.bounded(self.next_us, now_us)
        return rate.allowed(self.next_us, now_us)

    def is_free(self, now_us: int) -> bool:
        figures = self.figures
        if figures is None:
            return True
        if figures.max_running is not None and self.running >= figures.max_running:
            return False
        return figures.rate is None or self.tokens(now_us) > 0

    def room(self, now_us: int) -> int:
        """How many messages it allows now."""
        figures = self.figures
        if figures is None:
            return sys.maxsize
        slots = sys.maxsize if figures.max_running is None else figures.max_running - self.running
        return max(0, slots if figures.rate is None else min(slots, self.tokens(now_us)))

    def take(self, now_us: int, count: int = 1) -> None:
        """Take a slot and a token for each of `count` messages."""
        self.running += count
        self._spend(count, now_us)

    def give_back(self, now_us: int, count: int = 1, *, unstarted: bool) -> None:
        """Give slots back; of messages that were not started also the tokens."""
        self.running = max(0, self.running - count)
        if unstarted:
            self._spend(-count, now_us)

    def set_timer(self, now_us: int) -> bool:
        """Look for tokens later, because a line waits. False: there is no rate, or the timer is set."""
        rate = self.rate
        if rate is None or self.timer_us:
            return False
        self.timer_us = max(rate.opens_us(self.next_us, now_us), now_us + LOOK_US)
        return True

    def _spend(self, tokens: int, now_us: int) -> None:
        if rate := self.rate:
            self.next_us = rate.spent(self.next_us, now_us, tokens)


class LoadedBudgets:
    """The budgets that one step has read. The store reads them together, and writes them once."""

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us
        self._budgets: dict[LimitKey, Budget] = {}

    def missing(self, several: Iterable[Constraints]) -> list[LimitKey]:
        """The limits of these constraints whose budgets are not read yet."""
        wanted = {key: None for each in several for key in each.limits}
        return [key for key in wanted if key not in self._budgets]

    def add(self, budget: Budget) -> None:
        self._budgets[budget.key] = budget

    def of(self, constraints: Constraints) -> list[Budget]:
        return [self._budgets[key] for key in constraints.limits]

    def acquire_many(self, constraints: Constraints, most: int) -> int:
        """Take slots and tokens for up to `most` messages, and answer for how many."""
        budgets = self.of(constraints)
        count = min([most, *[budget.room(self._now_us) for budget in budgets]])
        for budget in budgets if count else ():
            budget.take(self._now_us, count)
        return count

    def acquire(self, constraints: Constraints) -> Budget | None:
        """Take a slot and a token of each limit; or answer the budget that has none, and take nothing."""
        budgets = self.of(constraints)
        for budget in budgets:
            if not budget.is_free(self._now_us):
                return budget
        for budget in budgets:
            budget.take(self._now_us)
        return None


def is_timer_due(timer_us: int, next_us: int, figures: LimitFigures | None, now_us: int) -> bool:
    """Whether it is time to look for tokens; also when the clock was set back."""
    rate = figures.rate if figures else None
    if rate is None or timer_us <= now_us:
        return True
    return timer_us > rate.opens_us(rate.bounded(next_us, now_us), now_us) + LOOK_US
