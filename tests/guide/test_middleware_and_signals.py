"""Middleware wraps every run; listeners hear what happened to it."""

from __future__ import annotations

from headrace import App, RetryPolicy, Run, signals
from headrace.engine.declared.registry import CallNext


async def test_middleware_wraps_every_run() -> None:
    app = App("memory://")
    log: list[str] = []

    @app.use
    async def trace(run: Run, call_next: CallNext) -> object:
        log.append(f"{run.headers['user']} begins")
        try:
            return await call_next(run)
        finally:
            log.append(f"{run.headers['user']} ends")

    @app.task
    async def work() -> None:
        log.append("work")

    async with app:
        await work.with_(headers={"user": "ada"}).enqueue()
        await app.worker().run(burst=True)
    assert log == ["ada begins", "work", "ada ends"]


async def test_listeners_hear_what_happened() -> None:
    app = App("memory://")
    died: list[str] = []

    @app.on(signals.JobDied)
    def mourn(signal: signals.JobDied) -> None:
        died.append(f"{signal.error_type}: {signal.error}")

    @app.task(retry=RetryPolicy.none())
    async def work() -> None:
        raise ValueError("no")

    async with app:
        await work.enqueue()
        await app.worker().run(burst=True)
    assert died == ["ValueError: no"]
