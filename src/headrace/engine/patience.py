"""Asks a store again that cannot be reached just now, for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.core.errors import BackendUnavailable

from .service import backoff

T = TypeVar("T")

#: Seconds for which a worker that starts asks again: a store that was there a moment ago may come back.
PATIENCE = 10.0


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What `ask` answers in the end. It must be repeatable."""
    deadline = time.monotonic() + PATIENCE
    failures = 0
    while True:
        try:
            return await ask()
        except BackendUnavailable as error:
            failures += 1
            if not (error.uncertain or error.transient) or time.monotonic() >= deadline:
                raise
            await asyncio.sleep(backoff(failures))
