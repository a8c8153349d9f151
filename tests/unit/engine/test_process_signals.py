"""SIGTERM and SIGINT: first stop, then hurry."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from types import FrameType

import pytest

from headrace.engine.worker.process_signals import StopSignals
from tests.support.waiting import wait_until


class Asked:
    def __init__(self) -> None:
        self.order: list[str] = []
        self.signals = StopSignals(
            first=lambda: self.order.append("stop"), second=lambda: self.order.append("hurry")
        )


async def test_the_first_signal_asks_to_stop_and_the_next_ones_to_hurry() -> None:
    asked = Asked()
    with asked.signals:
        for count, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGTERM), 1):
            os.kill(os.getpid(), number)
            await wait_until(lambda count=count: len(asked.order) == count)  # type: ignore[misc]
    assert asked.order == ["stop", "hurry", "hurry"]


async def test_an_event_loop_that_takes_no_signal_handlers_gets_the_signals_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(*_: object) -> None:
        raise NotImplementedError  # as on Windows

    for name in ("add_signal_handler", "remove_signal_handler"):
        monkeypatch.setattr(asyncio.get_running_loop(), name, absent)
    before, asked = signal.getsignal(signal.SIGINT), Asked()
    with asked.signals:
        os.kill(os.getpid(), signal.SIGINT)
        await wait_until(lambda: asked.order == ["stop"])
    assert signal.getsignal(signal.SIGINT) is before


async def test_every_worker_of_the_process_is_asked() -> None:
    one, other = Asked(), Asked()
    with one.signals:
        with other.signals:
            os.kill(os.getpid(), signal.SIGTERM)
            await wait_until(lambda: one.order and other.order)
        os.kill(os.getpid(), signal.SIGTERM)
        await wait_until(lambda: len(one.order) == 2)
    assert other.order == ["stop"]


async def test_what_handled_the_signals_before_handles_them_again() -> None:
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)

    previous = signal.signal(signal.SIGTERM, handle)
    try:
        with Asked().signals:
            assert signal.getsignal(signal.SIGTERM) is not handle
        os.kill(os.getpid(), signal.SIGTERM)
        await wait_until(lambda: received == [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, previous)


async def test_in_another_thread_there_are_no_signals_and_that_is_no_error() -> None:
    async def enter() -> None:
        with Asked().signals:
            await asyncio.sleep(0)

    errors: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(enter())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert errors == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
async def test_a_signal_to_a_forked_child_is_the_childs_alone() -> None:
    asked = Asked()
    with asked.signals:
        for _ in range(3):
            child = os.fork()
            if child == 0:
                signal.alarm(10)  # it is not left behind, whatever becomes of the test
                while True:
                    signal.pause()
            os.kill(child, signal.SIGTERM)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)
        await wait_until(lambda: asked.order)
    assert asked.order == ["stop"]
