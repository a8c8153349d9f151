"""The only way in which tests wait: until something is so, or fail and say what was not."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final

#: Seconds between two looks.
POLL_INTERVAL: Final = 0.005


async def wait_until(
    condition: Callable[[], object | Awaitable[object]], timeout: float = 10, message: str = ""
) -> None:
    """Return as soon as the condition, a plain or an async function, is true."""
    deadline = time.monotonic() + timeout
    while not await _value(condition):
        _check(deadline, timeout, message)
        await asyncio.sleep(POLL_INTERVAL)


def wait_until_sync(condition: Callable[[], object], timeout: float = 10, message: str = "") -> None:
    """The same for tests without an event loop."""
    deadline = time.monotonic() + timeout
    while not condition():
        _check(deadline, timeout, message)
        time.sleep(POLL_INTERVAL)


async def _value(condition: Callable[[], object | Awaitable[object]]) -> object:
    value = condition()
    return await value if inspect.isawaitable(value) else value


def _check(deadline: float, timeout: float, message: str) -> None:
    if time.monotonic() >= deadline:
        raise AssertionError(f"not within {timeout:g} s: {message or 'the condition'}")
