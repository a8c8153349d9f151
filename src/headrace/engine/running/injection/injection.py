"""Calls functions with their dependencies: in a worker's run, or when a task is called as a function."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from headrace.engine.running.run import current_run

from .dependencies import Need
from .resources import Carry, JobScope, Resources, refuse_to_wait

P = ParamSpec("P")
T = TypeVar("T")


#: The dependencies that a call with these arguments does not pass itself.
Missing = Callable[[tuple[object, ...], dict[str, object]], tuple[Need, ...]]


def provided(function: Callable[..., Any], needs: tuple[Need, ...]) -> Callable[..., Any]:
    """The function with its dependencies provided. A dependency that the caller passes is used as it is."""
    signature = inspect.signature(function)

    def missing(args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Need, ...]:
        given = signature.bind_partial(*args, **kwargs).arguments
        return tuple(need for need in needs if need.name not in given)

    wrap = _provided_async if inspect.iscoroutinefunction(function) else _provided_plain
    return wrap(function, missing)


def _provided_async(
    function: Callable[P, Coroutine[Any, Any, T]], missing: Missing
) -> Callable[P, Coroutine[Any, Any, T]]:
    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        async with JobScope(_resources()) as scope:
            kwargs.update(await scope.provide(missing(args, kwargs)))
            return await function(*args, **kwargs)

    return call


def _provided_plain(function: Callable[P, T], missing: Missing) -> Callable[P, T]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        async def scoped(carry: Carry) -> T:
            async with JobScope(_resources(), carry) as scope:
                kwargs.update(await scope.provide(missing(args, kwargs)))
                return function(*args, **kwargs)

        return _in_this_thread(scoped)

    return call


def _resources() -> Resources | None:
    run = current_run.get(None)
    return None if run is None else run.resources


def _in_this_thread(scoped: Callable[[Carry], Coroutine[Any, Any, T]]) -> T:
    resources = _resources()
    if resources is not None:
        return _driven(scoped, resources.carry_from_thread)
    # Called as a function, outside of any job.
    if asyncio._get_running_loop() is not None:
        return _driven(scoped, refuse_to_wait)
    with asyncio.Runner() as runner:
        return _driven(scoped, runner.run)


def _driven(
    scoped: Callable[[Carry], Coroutine[Any, Any, T]], run: Callable[[Coroutine[Any, Any, Any]], Any]
) -> T:
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
        value: T = stop.value
        return value
    raise RuntimeError("the dependencies of a plain function suspended in its thread")
