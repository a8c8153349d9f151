"""The process of a worker ends in good order, whatever ends its event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest

from headrace import App, signals
from headrace.cli.worker import process
from headrace.cli.worker.process import run_worker


def once(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(sys.exit, 3)


def twice(loop: asyncio.AbstractEventLoop) -> None:
    once(loop)
    sys.exit(3)


def stop(loop: asyncio.AbstractEventLoop) -> None:
    loop.stop()


@pytest.mark.parametrize(("end", "error"), [(once, SystemExit), (twice, SystemExit), (stop, RuntimeError)])
@pytest.mark.parametrize("uvloop", [False, True])
def test_a_worker_whose_loop_a_callback_ends_hands_its_jobs_back(
    end: Callable[[asyncio.AbstractEventLoop], None],
    error: type[BaseException],
    uvloop: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not uvloop:
        monkeypatch.setattr(process, "loop_factory", lambda: None)
    app = App("memory://")
    stopped: list[signals.WorkerStopped] = []
    app.on(signals.WorkerStopped)(stopped.append)

    @app.task(name="hang")
    async def hang() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(end, loop)
        await asyncio.Event().wait()

    hang.sync.enqueue()
    with pytest.raises(error):
        run_worker(app, app.worker(grace=0), burst=False)
    assert [signal.released for signal in stopped] == [1]
