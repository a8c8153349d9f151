"""One slot, as a run sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Slot:
    """The task in which handlers run, one after the other, and what hears that a handler has suspended."""

    __slots__ = ("suspended", "task")

    def __init__(self, task: asyncio.Task[None], suspended: Callable[[], None]) -> None:
        self.task = task
        self.suspended = suspended
