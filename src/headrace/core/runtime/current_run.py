"""The run under way, for those who are called from a handler and are not given it: logs, traces."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class RunUnderWay(Protocol):
    """What may be asked of it from below the engine, whose `Run` it is."""

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
