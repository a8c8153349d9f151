"""Without a terminal: what `status` prints, again and again, for a log or a program."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from headrace.app import App
from headrace.cli.render import clock_time, echo, json_line, show
from headrace.cli.snapshot import Snapshot, document, view
from headrace.core.errors import BackendUnavailable
from headrace.dashboard.concerns import concerns

from .looking import Looking


async def text_lines(app: App, every: float) -> None:
    """A block for each look, with an empty line behind it."""
    async with _looking(app) as looking:
        while True:
            seen = await _look(looking)
            echo(clock_time(datetime.now(UTC)))
            if isinstance(seen, Snapshot):
                show(view(seen))
                for concern in concerns(seen.queues, seen.topics, seen.workers, looking.findings):
                    echo(f"! {concern.text}")
            else:
                echo(f"{app.description}\n\n! {seen}")
            echo()
            sys.stdout.flush()
            await _rest(every)


async def json_lines(app: App, every: float) -> None:
    """A document for each look, as `--json` prints it, on one line; with `error` while the store is away."""
    async with _looking(app) as looking:
        while True:
            seen = await _look(looking)
            away = {"store": app.description, "at": datetime.now(UTC), "error": str(seen)}
            echo(json_line(document(seen) if isinstance(seen, Snapshot) else away))
            sys.stdout.flush()
            await _rest(every)


async def _look(looking: Looking) -> Snapshot | BackendUnavailable:
    try:
        return await looking.look()
    except BackendUnavailable as error:
        return error


@asynccontextmanager
async def _looking(app: App) -> AsyncIterator[Looking]:
    looking = Looking(app)
    try:
        yield looking
    finally:
        await looking.close()
        await app.close()


async def _rest(seconds: float) -> None:
    await asyncio.sleep(seconds)
