"""Waits in tests until a condition is true, or fails with a message."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

#: Seconds between two looks.
POLL_INTERVAL: Final = 0.005

#: What the test waits for, or a function that describes the state after a timeout.
FailureText: TypeAlias = str | Callable[[], str]


async def wait_until(
    condition: Callable[[], object | Awaitable[object]], timeout: float = 10, message: FailureText = ""
) -> None:
    """Return as soon as the condition, a plain or an async function, is true."""
    deadline = time.monotonic() + timeout
    while not await _value(condition):
        _check(deadline, timeout, message)
        await asyncio.sleep(POLL_INTERVAL)


def wait_until_sync(condition: Callable[[], object], timeout: float = 10, message: FailureText = "") -> None:
    """`wait_until` for tests without an event loop."""
    deadline = time.monotonic() + timeout
    while not condition():
        _check(deadline, timeout, message)
        time.sleep(POLL_INTERVAL)  # the caller has no event loop


async def _value(condition: Callable[[], object | Awaitable[object]]) -> object:
    value = condition()
    return await value if inspect.isawaitable(value) else value


def _check(deadline: float, timeout: float, message: FailureText) -> None:
    if time.monotonic() >= deadline:
        text = message() if callable(message) else message
        raise AssertionError(f"not within {timeout:g} s: {text or 'the condition'}")
