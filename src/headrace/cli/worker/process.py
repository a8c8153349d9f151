"""The process of a worker: runs it until a signal comes, and ends in good order."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress

from headrace.app import App
from headrace.engine.worker.process_signals import StopSignals
from headrace.engine.worker.worker import Worker

from .event_loop import loop_factory
from .metrics_port import metrics_port
from .process_monitor import ProcessMonitor

logger = logging.getLogger("headrace")

#: Seconds after the second signal.
LAST_MOMENTS = 1.7


def run_worker(
    app: App,
    worker: Worker,
    *,
    burst: bool,
    counts: bool = True,
    metrics: tuple[str, int | None, Collection[str]] = ("127.0.0.1", None, ()),
) -> None:
    """Run a worker until a signal comes, and end the process in good order. `counts`: log how many jobs were
    done."""
    _run(_serve(app, worker, burst, ProcessMonitor(worker, counts=counts), metrics))


async def _serve(
    app: App,
    worker: Worker,
    burst: bool,
    monitor: ProcessMonitor,
    metrics: tuple[str, int | None, Collection[str]],
) -> None:
    try:
        async with metrics_port(app, worker, *metrics), monitor:
            with StopSignals(first=monitor.first_signal, second=_exit_soon(monitor.second_signal)):
                await worker.run(burst=burst)
    finally:
        await app.close()


def _exit_soon(say: Callable[[], None]) -> Callable[[], None]:
    """For the second signal: the process ends, also when the store or a handler hangs."""

    def end() -> None:
        say()
        timer = threading.Timer(LAST_MOMENTS, _exit)
        timer.daemon = True
        timer.start()

    return end


def _exit(code: int = 0) -> None:
    logging.shutdown()
    os._exit(code)


def _run(main: Coroutine[object, None, None]) -> None:
    runner = asyncio.Runner(loop_factory=loop_factory())
    task = runner.get_loop().create_task(main)
    try:
        runner.run(_ended(task))
    except BaseException as error:
        if not task.done():
            logger.error("the worker stops: a callback has ended its event loop (%r)", error)
            _stop(task)
            _close(runner, exit_code=1)
        raise
    _close(runner)


async def _ended(task: asyncio.Task[None]) -> None:
    await task


def _stop(task: asyncio.Task[None]) -> None:
    """Run the loop on, which a callback has ended, until the worker has stopped in good order. When it is
    ended again, there is no more grace."""
    while not task.done():
        task.cancel()
        with suppress(BaseException):  # the error that ended the loop first is the one to raise
            task.get_loop().run_until_complete(task)


def _close(runner: asyncio.Runner, *, exit_code: int = 0) -> None:
    left = asyncio.all_tasks(runner.get_loop())
    for task in left:
        task.cancel()
    if left:
        runner.run(_wait(left))
    if asyncio.all_tasks(runner.get_loop()):
        # A handler that ignores its cancellation was handed back and left behind. Closing the loop would wait
        # for it for ever.
        _exit(exit_code)
    runner.close()


async def _wait(tasks: set[asyncio.Task[object]]) -> None:
    """Give tasks that a handler left running a second to end."""
    await asyncio.wait(tasks, timeout=1.0)
