"""Threads for plain functions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from headrace.engine.running.calling.threads import ThreadError, Threads
from tests.support.waiting import wait_until

word: ContextVar[str] = ContextVar("word")


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(2)
    yield threads
    threads.close()


def run(threads: Threads, function: Any, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
    return threads.submit(copy_context(), function, args, kwargs)


async def raised(threads: Threads, function: Any, *args: Any) -> ThreadError:
    result = await run(threads, function, *args)
    assert isinstance(result, ThreadError)
    return result


async def test_a_function_runs_in_another_thread(threads: Threads) -> None:
    assert await run(threads, threading.get_ident) != threading.get_ident()


async def test_arguments_go_in_and_the_value_comes_back(threads: Threads) -> None:
    assert await run(threads, divmod, 17, 5) == (3, 2)
    assert await run(threads, int, "ff", base=16) == 255


async def test_an_error_comes_back_as_it_was_raised(threads: Threads) -> None:
    with pytest.raises(ZeroDivisionError):
        raise (await raised(threads, divmod, 1, 0)).take()


async def test_stop_iteration_comes_back_as_a_runtime_error(threads: Threads) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        raise (await raised(threads, next, iter(()))).take()


async def test_a_system_exit_ends_neither_the_thread_nor_the_program(threads: Threads) -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        raise (await raised(threads, leave)).take()
    assert await run(threads, divmod, 7, 7) == (1, 0)


async def test_the_function_sees_the_context_it_was_given(threads: Threads) -> None:
    word.set("outside")
    assert await run(threads, word.get) == "outside"


async def test_what_a_function_sets_does_not_leak_into_the_next(threads: Threads) -> None:
    await run(threads, word.set, "inside")
    assert await run(threads, word.get, "nothing") == "nothing"


async def test_there_are_never_more_threads_than_the_size(threads: Threads) -> None:
    gate, inside = threading.Event(), set[int]()

    def work() -> int:
        inside.add(threading.get_ident())
        gate.wait(10)
        return threading.get_ident()

    futures = [run(threads, work) for _ in range(6)]
    await wait_until(lambda: len(inside) == 2)
    gate.set()
    assert len(set(await asyncio.gather(*futures))) == 2


async def test_one_function_after_another_shares_one_thread(threads: Threads) -> None:
    first = await run(threads, threading.get_ident)
    await asyncio.sleep(0)
    assert await run(threads, threading.get_ident) == first


async def test_idle_threads_end_when_closed() -> None:
    threads = Threads(2)
    thread = await run(threads, threading.current_thread)
    threads.close()
    await wait_until(lambda: not thread.is_alive())


async def test_a_thread_does_not_keep_the_interpreter_from_ending(threads: Threads) -> None:
    assert (await run(threads, threading.current_thread)).daemon


def test_a_value_for_a_loop_that_is_gone_is_dropped() -> None:
    threads, gate = Threads(1), threading.Event()
    ended = threading.Event()

    def work() -> None:
        gate.wait(10)
        ended.set()

    async def leave() -> None:
        _ = run(threads, work)

    asyncio.run(leave())
    gate.set()
    assert ended.wait(10)
    threads.close()
