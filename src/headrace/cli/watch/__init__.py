"""`headrace status --watch`: a screen with graphs and keys on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from datetime import UTC, datetime
from typing import NoReturn

from headrace.admin.looking.doctor import RecentFindings
from headrace.app import App
from headrace.cli.output.render import clock_time, compact_json, console, echo, is_terminal, show
from headrace.cli.status.snapshot import Snapshot, look, snapshot_document, snapshot_view
from headrace.core.errors import BackendUnavailable
from headrace.core.records.findings import Finding

from .screen import WatchScreen
from .state import warnings
from .terminal import Terminal


def watch(app: App, *, every: float, as_json: bool) -> int:
    """Run until the user ends it. Returns the exit code."""
    # Log lines would be written across the screen.
    logging.getLogger("headrace").addHandler(logging.NullHandler())
    # Ctrl-C is the usual way to end it.
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner() as runner:
        plain = as_json or not is_terminal("stdout") or console().is_dumb_terminal
        screen = WatchScreen(app, Terminal(console()), every)
        code = runner.run(_print_lines(app, every, as_json=as_json) if plain else screen.run())
        if asyncio.all_tasks(runner.get_loop()):
            # A doctor at work, or a store that hangs: closing the loop would wait for them.
            os._exit(code)
        return code
    return 0


async def _print_lines(app: App, every: float, *, as_json: bool) -> NoReturn:
    """What `status` prints, again and again: a block of text, or a JSON document on one line."""
    recent = RecentFindings(app.admin.doctor)
    try:
        while True:
            try:
                seen = await look(app)
            except BackendUnavailable as error:
                _print_problem(app, str(error), as_json=as_json)
            else:
                _print(seen, recent.get(), as_json=as_json)
            sys.stdout.flush()
            await _wait(every)
    finally:
        await recent.close()
        await app.close()


def _print(seen: Snapshot, findings: list[Finding], *, as_json: bool) -> None:
    if as_json:
        echo(compact_json(snapshot_document(seen)))
        return
    echo(clock_time(seen.at))
    show(snapshot_view(seen))
    for text, _ in warnings(seen, findings):
        echo(f"! {text}")
    echo()


def _print_problem(app: App, problem: str, *, as_json: bool) -> None:
    now = datetime.now(UTC)
    if as_json:
        echo(compact_json({"store": app.description, "at": now, "error": problem}))
    else:
        echo(f"{clock_time(now)}\n{app.description}\n\n! {problem}\n")


async def _wait(seconds: float) -> None:
    await asyncio.sleep(seconds)
