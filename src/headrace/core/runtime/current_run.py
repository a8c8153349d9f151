"""The current run, for code below a handler that does not get it as an argument: logs, traces."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class RunUnderWay(Protocol):
    """What code below the engine may read of a run. The engine's `Run` implements it."""

    ended: bool

    @property
    def id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def attempt(self) -> int: ...


under_way: ContextVar[RunUnderWay] = ContextVar("headrace_run")
