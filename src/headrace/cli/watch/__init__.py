"""`headrace status --watch`: a screen with graphs and keys on a terminal, plain lines anywhere else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine
from typing import Any

from headrace.app import App
from headrace.cli.output.render import console, is_terminal

from .lines import json_lines, text_lines
from .live import Live
from .screen import Screen


def watch(app: App, *, every: float, as_json: bool) -> int:
    """Until it is ended; the exit code."""
    # Nobody reads logs here, and on a terminal their lines would stand across the table.
    logging.getLogger("headrace").addHandler(logging.NullHandler())
    with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
        if as_json:
            asyncio.run(json_lines(app, every))
        elif not is_terminal("stdout") or console().is_dumb_terminal:
            asyncio.run(text_lines(app, every))
        else:
            return _run(_live(app, every))
    return 0


def _run(main: Coroutine[Any, Any, int]) -> int:
    with asyncio.Runner() as runner:
        code = runner.run(main)
        if asyncio.all_tasks(runner.get_loop()):
            # Something that the store does not let go of, and for which closing the loop would wait. The
            # person has left, and has the terminal back.
            os._exit(code)
        return code


async def _live(app: App, every: float) -> int:
    return await Live(app, Screen(console()), every).run()
