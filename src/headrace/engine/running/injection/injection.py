"""Calls functions with their dependencies: in a worker's run, or when a task is called as a function."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.engine.running.run import current_run

from .dependencies import Need
from .resources import Carry, JobScope, Resources, refuse_to_wait


def provided(function: Callable[..., Any], needs: tuple[Need, ...]) -> Callable[..., Any]:
    """The function with its dependencies provided. A dependency that the caller passes is used as it is."""
    signature = inspect.signature(function)

    def missing(args: Any, kwargs: Any) -> tuple[Need, ...]:
        given = signature.bind_partial(*args, **kwargs).arguments
        return tuple(need for need in needs if need.name not in given)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            async with JobScope(_resources()) as scope:
                return await function(*args, **kwargs, **await scope.provide(missing(args, kwargs)))

        return call_async

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        async def scoped(carry: Carry) -> Any:
            async with JobScope(_resources(), carry) as scope:
                return function(*args, **kwargs, **await scope.provide(missing(args, kwargs)))

        return _in_this_thread(scoped)

    return call


def _resources() -> Resources | None:
    run = current_run.get(None)
    return None if run is None else run.resources


def _in_this_thread(scoped: Callable[[Carry], Coroutine[Any, Any, Any]]) -> Any:
    resources = _resources()
    if resources is not None:
        return _driven(scoped, resources.carry_from_thread)
    # Called as a function, outside of any job.
    if asyncio._get_running_loop() is not None:
        return _driven(scoped, refuse_to_wait)
    with asyncio.Runner() as runner:
        return _driven(scoped, runner.run)


def _driven(
    scoped: Callable[[Carry], Coroutine[Any, Any, Any]], run: Callable[[Coroutine[Any, Any, Any]], Any]
) -> Any:
    async def carry(coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            return run(coroutine)
        except RuntimeError:
            coroutine.close()  # it could not run: the loop is closed, or is the wrong one
            raise

    # It never suspends, since `carry` waits for everything that it awaits. So it needs no event loop.
    try:
        scoped(carry).send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("the dependencies of a plain function suspended in its thread")
