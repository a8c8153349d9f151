"""What a process must not have when its app is closed: tasks, threads, open files and connections."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Final

from headrace import App

#: Seconds within which an app must be closed, also after a cancellation.
CLOSES: Final = 15.0

#: Seconds within which a thread must have ended that was asked to: on a busy machine it takes a while.
THREAD_ENDS: Final = 5.0


async def closed(app: App) -> None:
    """Close the app; a second time when this was cancelled. An app that does not close is an error."""
    for _ in range(2):
        closing = asyncio.create_task(app.close())
        await asyncio.wait([closing], timeout=CLOSES)
        if not closing.done():
            raise TimeoutError(f"the app does not close within {CLOSES:g} s: {closing!r}")
        if not closing.cancelled():
            closing.result()
            return


def left_behind(files: set[str]) -> list[str]:
    """In words. `files` were open before. A connection of an event loop that ended without closing the app is
    closed by the garbage collector alone."""
    gc.collect()
    others = asyncio.all_tasks() - {asyncio.current_task()} if _has_loop() else set()
    return [
        *(f"a task: {task!r}" for task in others),
        *(f"a thread: {name}" for name in _threads()),
        # Twice, since the C library opens some for a moment, in any thread.
        *(f"a file: {file}" for file in (open_files() - files) & open_files()),
    ]


def _threads() -> list[str]:
    """Threads that do not end by themselves soon. Those of asyncio end with their loop."""
    main = threading.main_thread()
    others = [each for each in threading.enumerate() if each is not main and "asyncio" not in each.name]
    for thread in others:
        thread.join(THREAD_ENDS)
    return [thread.name for thread in others if thread.is_alive()]


def open_files() -> set[str]:
    """Also sockets and pipes; without the logs of the harness."""
    found: set[str] = set()
    for path in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(path)
        except OSError:
            continue  # that of this listing
        if not target.endswith(".jsonl"):
            found.add(f"{path.name} {target}")
    return found


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
