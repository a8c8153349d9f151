"""`headrace status --watch`: a screen with graphs and keys on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from datetime import UTC, datetime

from headrace.admin.diagnosis import diagnose, workloads
from headrace.admin.doctor import RecentFindings, one_line
from headrace.app import App
from headrace.cli.commands.snapshot import Snapshot, look, snapshot_document, snapshot_view
from headrace.cli.output.render import clock_time, console, echo, is_terminal, json_line, show
from headrace.core.errors import BackendUnavailable
from headrace.core.records.findings import Finding

from .screen import Terminal, WatchScreen


def watch(app: App, *, every: float, as_json: bool) -> int:
    """Run until the user ends it. Returns the exit code."""
    # Log lines would be written across the screen.
    logging.getLogger("headrace").addHandler(logging.NullHandler())
    with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
        if as_json or not is_terminal("stdout") or console().is_dumb_terminal:
            asyncio.run(_print_lines(app, every, as_json=as_json))
        else:
            return _run_screen(app, every)
    return 0


def _run_screen(app: App, every: float) -> int:
    with asyncio.Runner() as runner:
        code = runner.run(WatchScreen(app, Terminal(console()), every).run())
        if asyncio.all_tasks(runner.get_loop()):
            # A doctor at work, or a store that hangs: closing the loop would wait for them.
            os._exit(code)
        return code


async def _print_lines(app: App, every: float, *, as_json: bool) -> None:
    """What `status` prints, again and again: a block of text, or a JSON document on one line."""
    recent = RecentFindings(app.admin.doctor)
    try:
        while True:
            try:
                found: Snapshot | BackendUnavailable = await look(app)
            except BackendUnavailable as error:
                found = error
            if as_json:
                _print_document(app, found)
            else:
                _print_block(app, found, recent.get())
            sys.stdout.flush()
            await _wait(every)
    finally:
        await recent.close()
        await app.close()


def _print_document(app: App, found: Snapshot | BackendUnavailable) -> None:
    if isinstance(found, Snapshot):
        echo(json_line(snapshot_document(found)))
    else:
        echo(json_line({"store": app.description, "at": datetime.now(UTC), "error": str(found)}))


def _print_block(app: App, found: Snapshot | BackendUnavailable, findings: list[Finding]) -> None:
    echo(clock_time(datetime.now(UTC)))
    if isinstance(found, Snapshot):
        show(snapshot_view(found))
        for finding in findings:
            echo(f"! {one_line(finding)}")
        for problem in diagnose(workloads(found.queues, found.topics), found.workers):
            echo(f"! {problem.text}")
    else:
        echo(f"{app.description}\n\n! {found}")
    echo()


async def _wait(seconds: float) -> None:
    await asyncio.sleep(seconds)
