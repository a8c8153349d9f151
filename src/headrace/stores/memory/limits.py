"""Counts what limits allow: slots and tokens, and which lines wait for them. The caller holds the lock."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.rate import Rate
from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlMessage, DueNotice
from headrace.stores.memory.streams.lines import Line, Lines

#: Microseconds between two looks for tokens, at least.
LOOK_US = 1000


class LimitState:
    """One budget: a limit, or one key of it."""

    __slots__ = ("blocked", "key", "next_us", "running", "timer_us")

    def __init__(self, key: LimitKey) -> None:
        self.key = key
        self.running = 0
        self.next_us = 0  # see `Rate`
        self.timer_us = 0  # when tokens are looked for; 0: no line waits for tokens
        self.blocked: dict[Lines, list[tuple[int, int, Line]]] = {}  # of each stream, the first line first

    @property
    def name(self) -> str:
        return self.key.limit

    def put(self, line: Line) -> None:
        line.blocked_by = self
        heapq.heappush(self.blocked.setdefault(line.lines, []), (line.lane, line.place, line))

    def take(self, lines: Lines) -> Line | None:
        """Remove the first line of a stream that waits for this limit."""
        blocked = self.blocked.get(lines, [])
        while blocked:
            line = heapq.heappop(blocked)[2]
            if line.blocked_by is self and line.count:
                return line
        self.blocked.pop(lines, None)
        return None


class LimitStates:
    def __init__(self, announce: Callable[[ControlMessage], None]) -> None:
        self._declared: dict[str, LimitFigures] = {}
        self._overrides: dict[str, LimitFigures] = {}
        self._states: dict[LimitKey, LimitState] = {}
        self._waiting: Counter[LimitKey] = Counter()
        self._timers: list[tuple[int, int, LimitState]] = []
        self._pushes = 0
        self._announce = announce

    # --- figures -----------------------------------------------------------------------------------------

    def declare(self, limits: Sequence[LimitFigures], now_us: int) -> list[LimitFigures]:
        changed: list[LimitFigures] = []
        for figures in limits:
            before = self._declared.get(figures.name)
            self._declared[figures.name] = figures
            if before is not None and before != figures:
                changed.append(before)
            if before != figures:
                self._offer_all(figures.name, now_us)
        return changed

    def override(self, name: str, figures: LimitFigures | None, now_us: int) -> bool:
        if figures is None:
            self._overrides.pop(name, None)
        elif name in self._declared:
            self._overrides[name] = figures
        self._offer_all(name, now_us)
        return name in self._declared

    def all_figures(self) -> list[LimitFigures]:
        return [self._figures(name) or declared for name, declared in self._declared.items()]

    def records(self) -> list[LimitRecord]:
        running, waiting, keys = Counter[str](), Counter[str](), Counter[str]()
        for key, count in self._waiting.items():
            waiting[key.limit] += count
        for key, state in self._states.items():
            running[key.limit] += state.running
        used = self._waiting.keys() | {key for key, state in self._states.items() if state.running}
        for key in used:
            keys[key.limit] += bool(key.key)
        return [
            LimitRecord(
                self._figures(name) or declared,
                running[name],
                waiting[name],
                keys[name],
                declared if name in self._overrides else None,
            )
            for name, declared in sorted(self._declared.items())
        ]

    def _figures(self, name: str) -> LimitFigures | None:
        return self._overrides.get(name) or self._declared.get(name)

    def _offer_all(self, name: str, now_us: int) -> None:
        for state in [state for key, state in self._states.items() if key.limit == name]:
            state.timer_us = 0  # a line that finds no token sets it by the new figures
            for lines in list(state.blocked):
                while line := state.take(lines):
                    lines.open(line)

    # --- slots and tokens --------------------------------------------------------------------------------

    def acquire(self, constraints: Constraints, now_us: int) -> LimitState | None:
        """Take a slot and a token of each limit; or answer the limit that has none, and take nothing."""
        states = [self._state(key) for key in constraints.limits]
        for state in states:
            if not self._is_free(state, now_us):
                return state
        for state in states:
            state.running += 1
            self._spend(state, 1, now_us)
        return None

    def release(self, constraints: Constraints, now_us: int, *, unstarted: bool = False) -> None:
        """Give the slots of a message back; of one that was not started also its tokens."""
        for key in constraints.limits:
            state = self._state(key)
            state.running -= 1
            if unstarted:
                self._spend(state, -1, now_us)
            self._offer(state, now_us)
            self._forget_idle(state, now_us)

    def block(self, line: Line, state: LimitState, now_us: int) -> None:
        """A line has asked a limit in vain."""
        state.put(line)
        self._set_timer(state, line.lines, now_us)
        self.offer_to(line, now_us)

    def offer_to(self, line: Line, now_us: int) -> None:
        """An open line took nothing, or is empty: open the next line of the same stream for each limit."""
        for key in line.constraints.limits:
            state = self._states.get(key)
            if state is not None and self._is_free(state, now_us) and (following := state.take(line.lines)):
                line.lines.open(following)

    def count_waiting(self, constraints: Constraints, change: int) -> None:
        for key in constraints.limits:
            self._waiting[key] += change
            if not self._waiting[key]:
                del self._waiting[key]

    def _state(self, key: LimitKey) -> LimitState:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = LimitState(key)
        return state

    def _is_free(self, state: LimitState, now_us: int) -> bool:
        figures = self._figures(state.name)
        if figures is None:
            return True
        if figures.max_running is not None and state.running >= figures.max_running:
            return False
        return figures.rate is None or self._tokens(state, figures.rate, now_us) > 0

    def _tokens(self, state: LimitState, rate: Rate, now_us: int) -> int:
        state.next_us = rate.bounded(state.next_us, now_us)
        return rate.allowed(state.next_us, now_us)

    def _spend(self, state: LimitState, tokens: int, now_us: int) -> None:
        if rate := self._rate(state):
            state.next_us = rate.spent(state.next_us, now_us, tokens)

    def _offer(self, state: LimitState, now_us: int) -> None:
        """A slot or token is free: open the first line of each stream. Any of these streams may have no
        worker, so one alone is not enough."""
        if self._is_free(state, now_us):
            for lines in list(state.blocked):
                if line := state.take(lines):
                    lines.open(line)

    def _forget_idle(self, state: LimitState, now_us: int) -> None:
        # A timer may be of a state that was forgotten before: the key may have a new one.
        if self._states.get(state.key) is state and not (
            state.running or state.blocked or state.next_us > now_us
        ):
            del self._states[state.key]

    # --- time --------------------------------------------------------------------------------------------

    def first_us(self) -> int | None:
        """When the next tokens are looked for."""
        while self._timers and self._timers[0][2].timer_us != self._timers[0][0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def first_us_of(self, streams: Collection[Stream]) -> int | None:
        """When the next tokens are looked for, for which messages of these streams wait."""
        waiting = [state for state in self._states.values() if state.timer_us]
        times = [each.timer_us for each in waiting if any(lines.stream in streams for lines in each.blocked)]
        return min(times, default=None)

    def look(self, now_us: int) -> None:
        """Open lines for the tokens that came back."""
        while self.first_us() is not None and self._is_due(self._timers[0][2], now_us):
            state = heapq.heappop(self._timers)[2]
            state.timer_us = 0
            self._offer_tokens(state, now_us)
            self._forget_idle(state, now_us)

    def _is_due(self, state: LimitState, now_us: int) -> bool:
        """Whether it is time to look; also when the clock was set back."""
        rate = self._rate(state)
        if rate is None or state.timer_us <= now_us:
            return True
        next_us = rate.bounded(state.next_us, now_us)
        return state.timer_us > rate.opens_us(next_us, now_us) + LOOK_US

    def _offer_tokens(self, state: LimitState, now_us: int) -> None:
        rate = self._rate(state)
        tokens = self._tokens(state, rate, now_us) if rate else 1
        for lines in list(state.blocked):
            for _ in range(tokens):
                if line := state.take(lines):
                    lines.open(line)
            if state.blocked.get(lines):
                self._set_timer(state, lines, now_us)

    def _rate(self, state: LimitState) -> Rate | None:
        figures = self._figures(state.name)
        return figures.rate if figures else None

    def _set_timer(self, state: LimitState, lines: Lines, now_us: int) -> None:
        rate = self._rate(state)
        if rate is None or state.timer_us:
            return
        state.timer_us = max(rate.opens_us(state.next_us, now_us), now_us + LOOK_US)
        first_us = self.first_us()
        self._pushes += 1
        heapq.heappush(self._timers, (state.timer_us, self._pushes, state))
        if first_us is None or state.timer_us < first_us:
            self._announce(DueNotice(lines.stream))
