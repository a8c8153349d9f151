"""Signals reach listeners, and an error in a listener harms no other code."""

from __future__ import annotations

import asyncio
import logging

import pytest

from headrace.core.signals import JobDied, JobSignal, JobSucceeded, Signal, WorkerStopped
from headrace.engine.emitter import Emitter
from tests.support.died import job_died

DIED = job_died("id", "task", "queue", attempt=1, reason="exhausted", error_type="ValueError", error="no")
STOPPED = WorkerStopped("worker", processed=1, released=0)


def test_a_listener_hears_the_signals_of_its_type() -> None:
    emitter, heard = Emitter(), list[Signal]()
    emitter.on(JobDied, heard.append)
    emitter.emit(DIED)
    emitter.emit(STOPPED)
    assert heard == [DIED]


def test_a_listener_to_a_base_class_hears_all_below_it() -> None:
    emitter, of_jobs, of_all = Emitter(), list[Signal](), list[Signal]()
    emitter.on(JobSignal, of_jobs.append)
    emitter.on(Signal, of_all.append)
    emitter.emit(DIED)
    emitter.emit(STOPPED)
    assert of_jobs == [DIED]
    assert of_all == [DIED, STOPPED]


def test_listeners_hear_in_the_order_in_which_they_came() -> None:
    emitter, heard = Emitter(), list[str]()
    emitter.on(JobDied, lambda signal: heard.append("first"))
    emitter.on(Signal, lambda signal: heard.append("second"))
    emitter.emit(DIED)
    assert heard == ["first", "second"]


def test_a_signal_is_wanted_when_somebody_listens() -> None:
    emitter = Emitter()
    assert JobDied not in emitter.wanted
    off = emitter.on(JobSignal, lambda signal: None)
    assert JobDied in emitter.wanted
    assert JobSucceeded in emitter.wanted
    assert WorkerStopped not in emitter.wanted
    off()
    assert JobDied not in emitter.wanted


def test_listening_may_be_ended_twice() -> None:
    emitter, heard = Emitter(), list[Signal]()
    off = emitter.on(JobDied, heard.append)
    off()
    off()
    emitter.emit(DIED)
    assert heard == []


def test_a_failing_listener_is_logged_and_the_others_hear(caplog: pytest.LogCaptureFixture) -> None:
    emitter, heard = Emitter(), list[Signal]()

    def broken(signal: JobDied) -> None:
        raise ValueError("no")

    emitter.on(JobDied, broken)
    emitter.on(JobDied, heard.append)
    emitter.emit(DIED)
    assert heard == [DIED]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "broken" in record.getMessage()


async def test_an_async_listener_is_run_beside_and_waited_for_at_the_end() -> None:
    emitter, heard, gate = Emitter(), list[Signal](), asyncio.Event()

    async def listen(signal: JobDied) -> None:
        await gate.wait()
        heard.append(signal)

    emitter.on(JobDied, listen)
    emitter.emit(DIED)
    assert heard == []
    gate.set()
    await emitter.settle()
    assert heard == [DIED]


async def test_what_a_listener_sets_off_is_waited_for_too() -> None:
    emitter, heard = Emitter(), list[Signal]()

    async def first(signal: JobDied) -> None:
        emitter.emit(STOPPED)

    async def second(signal: WorkerStopped) -> None:
        heard.append(signal)

    emitter.on(JobDied, first)
    emitter.on(WorkerStopped, second)
    emitter.emit(DIED)
    await emitter.settle()
    assert heard == [STOPPED]


async def test_a_failing_async_listener_is_logged_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    emitter = Emitter()

    async def broken(signal: JobDied) -> None:
        raise ValueError("no")

    emitter.on(JobDied, broken)
    emitter.emit(DIED)
    await emitter.settle()
    (record,) = caplog.records
    assert "broken" in record.getMessage()
    assert "exhausted" in record.getMessage()


def test_listeners_of_a_loop_that_is_gone_are_not_waited_for() -> None:
    emitter = Emitter()

    async def forever(signal: JobDied) -> None:
        await asyncio.Event().wait()

    async def emit() -> None:
        emitter.on(JobDied, forever)
        emitter.emit(DIED)

    asyncio.run(emit())
    asyncio.run(emitter.settle())
