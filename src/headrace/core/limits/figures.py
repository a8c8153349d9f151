"""The figures of a limit as stores keep them, and what a store answers about a limit."""

from __future__ import annotations

import msgspec

from .rate import Rate


class LimitFigures(msgspec.Struct, frozen=True):
    """What a limit allows. None: it does not limit that."""

    name: str
    max_running: int | None = None
    rate: Rate | None = None

    def __str__(self) -> str:
        """The figures in words."""
        running = [] if self.max_running is None else [f"{self.max_running} running"]
        rate = [] if self.rate is None else [f"{self.rate}, burst {self.rate.burst}"]
        return " and ".join(running + rate) or "no limit"


class LimitRecord(msgspec.Struct, frozen=True):
    """A limit in the store. `figures` hold now. `declared`: an administrator has set them, and the code
    declares these.

    `running` counts the messages that hold a slot of it, `waiting` the queued messages that need one. `keys`
    are the values of `by` that have a message running or waiting. Of a limit without keys it is 0.
    """

    figures: LimitFigures
    running: int = 0
    waiting: int = 0
    keys: int = 0
    declared: LimitFigures | None = None

    @property
    def is_overridden(self) -> bool:
        return self.declared is not None
