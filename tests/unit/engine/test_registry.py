"""Names to handlers, and the middleware around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from headrace import ConfigurationError, RetryPolicy
from headrace.engine.declared.registry import CallNext, Handler, Registry
from headrace.engine.running.run import Run


def handler(name: str, function: Callable[..., Any], queue: str = "default") -> Handler:
    return Handler(
        name=name,
        queue=queue,
        function=function,
        run_in="loop",
        decode=lambda payload: ((), {}),
        encode=lambda value, id: b"",
        decode_result=lambda result, id: msgspec.msgpack.decode(result),
        retry=RetryPolicy.none(),
        timeout=None,
        result_ttl=0.0,
    )


async def one() -> None: ...
async def other() -> None: ...


def test_a_handler_is_found_by_its_name() -> None:
    registry = Registry()
    registry.add(found := handler("send", one))
    assert registry.find("send") is found
    assert registry.find("receive") is None
    assert "send" in registry
    assert list(registry) == [found]


def test_queues_are_those_that_handlers_name() -> None:
    registry = Registry()
    registry.add(handler("send", one, queue="mails"))
    registry.add(handler("render", other, queue="reports"))
    assert registry.queues() == {"mails", "reports"}


def test_two_functions_under_one_name_are_refused_with_their_places() -> None:
    registry = Registry()
    registry.add(handler("send", one))
    with pytest.raises(ConfigurationError, match="two tasks are called 'send'") as refused:
        registry.add(handler("send", other))
    assert "one (" in str(refused.value)
    assert "other (" in str(refused.value)
    assert "test_registry.py" in str(refused.value)


def test_the_same_function_may_be_declared_again_as_after_a_reload() -> None:
    registry = Registry()
    registry.add(handler("send", one))
    registry.add(again := handler("send", one))
    assert registry.find("send") is again


def test_without_middleware_nothing_is_folded() -> None:
    async def innermost(run: Run) -> object:
        return None

    assert Registry().fold(innermost) is None


async def test_the_first_middleware_is_the_outermost() -> None:
    registry, order = Registry(), list[str]()

    def named(name: str) -> Callable[[Run, CallNext], Any]:
        async def middleware(run: Run, call_next: CallNext) -> object:
            order.append(f"{name} before")
            value = await call_next(run)
            order.append(f"{name} after")
            return value

        return middleware

    async def innermost(run: Run) -> object:
        order.append("handler")
        return 42

    registry.use(named("outer"))
    registry.use(named("inner"))
    folded = registry.fold(innermost)
    assert folded is not None
    assert await folded(cast(Run, None)) == 42
    assert order == ["outer before", "inner before", "handler", "inner after", "outer after"]


async def test_what_is_only_marked_as_a_coroutines_function_gives_a_coroutine_all_the_same() -> None:
    def ends_too_soon() -> Any:
        return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await handler("send", ends_too_soon).function()
    given: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    given.set_result(7)
    assert await handler("send", lambda: given).function() == 7
    assert handler("send", one).function is one
