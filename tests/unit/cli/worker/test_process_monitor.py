"""What the monitor of a worker process logs and stops."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from headrace import App
from headrace.cli.worker import process_monitor as monitor_module
from headrace.cli.worker.process_monitor import ProcessMonitor
from headrace.cli.worker.supervisor import SUPERVISOR
from tests.support.waiting import wait_until


async def test_a_line_says_what_was_done(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "LOOK", 0.001)
    monkeypatch.setattr(monitor_module, "EVERY", 0.001)
    caplog.set_level(logging.INFO, logger="headrace")
    async with App("memory://") as app:

        @app.task(name="see")
        async def see() -> None: ...

        worker = app.worker()
        async with ProcessMonitor(worker), worker:
            await app.enqueue_many([see.call() for _ in range(3)])
            await wait_until(lambda: " jobs in " in caplog.text)
    assert "a second" in caplog.text or "a minute" in caplog.text


@pytest.mark.parametrize(
    ("done", "elapsed", "line"),
    [
        (12_345, 10.0, "12,345 jobs in 10 s, 1,234 a second, 0 running"),
        (5, 10.0, "5 jobs in 10 s, 30 a minute, 0 running"),
        (1, 10.0, "1 job in 10 s, 6 a minute, 0 running"),
    ],
)
async def test_the_pace_is_said_in_a_unit_that_fits(
    caplog: pytest.LogCaptureFixture, done: int, elapsed: float, line: str
) -> None:
    caplog.set_level(logging.INFO, logger="headrace")
    ProcessMonitor(App("memory://").worker())._say(done, elapsed)
    assert [record.getMessage() for record in caplog.records] == [line]


async def test_a_worker_that_handles_events_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="headrace")
    app = App("memory://")

    @app.topic("orders").subscribe(group="billing")
    async def bill(event: object) -> None: ...

    ProcessMonitor(app.worker())._say(5, 10.0)
    ProcessMonitor(app.worker(queues=[]))._say(5, 10.0)
    both, events = [record.getMessage() for record in caplog.records]
    assert both.startswith("5 jobs and events in 10 s")
    assert events.startswith("5 events in 10 s")


async def test_nothing_done_is_nothing_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="headrace")
    ProcessMonitor(App("memory://").worker())._say(0, 10.0)
    assert caplog.records == []


async def test_a_child_stops_when_its_supervisor_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "LOOK", 0.001)
    monkeypatch.setenv(SUPERVISOR, str(os.getpid()))  # which is not our parent
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    async with ProcessMonitor(App("memory://").worker()):
        await wait_until(lambda: sent)
    assert sent == [(os.getpid(), signal.SIGTERM)]


async def test_a_stopping_worker_names_the_jobs_that_it_waits_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "REMIND", 0.0)
    caplog.set_level(logging.INFO, logger="headrace")
    started = asyncio.Event()
    async with App("memory://") as app:

        @app.task(name="nap")
        async def nap() -> None:
            started.set()
            await asyncio.Event().wait()

        async with app.worker(grace=0) as worker:
            monitor = ProcessMonitor(worker)
            job = await nap.enqueue()
            await started.wait()
            monitor._remind()
            assert "waits for" not in caplog.text  # it does not stop yet
            monitor.first_signal()
            monitor._remind()
    assert f"waits for nap {job.id}, at most 0 s more" in caplog.text
