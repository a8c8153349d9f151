"""The part of a slot that a run uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Slot:
    """The task in which handlers run, one after the other, and a callback for a handler that suspends."""

    __slots__ = ("suspended", "task")

    def __init__(self, task: asyncio.Task[None], suspended: Callable[[], None]) -> None:
        self.task: asyncio.Task[None] = task
        self.suspended: Callable[[], None] = suspended
