"""Runs the screen: reads the store, draws, and handles keys and signals. None of these waits for another."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Final

from headrace.admin.looking.doctor import RecentFindings
from headrace.app import App
from headrace.cli.output.render import echo, short
from headrace.cli.status.snapshot import look
from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.core.values.whole_numbers import counted

from .state import WatchAction, WatchState
from .terminal import Keyboard, Terminal
from .view import frame

#: Seconds between two drawings, and while an action is under way.
TICK, QUICK_TICK = 1.0, 0.2

#: After a look that took long, wait for so many times as long, and for so many seconds at most.
REST, LONGEST_REST = 4, 5.0

#: Seconds for closing a store, which may hang.
CLOSE: Final = 3.0

#: Seconds after which an escape that nothing follows is the key Esc.
ESCAPE_AFTER: Final = 0.05


class WatchScreen:
    """`code = await WatchScreen(app, terminal, every).run()`"""

    def __init__(self, app: App, terminal: Terminal, every: float) -> None:
        self._app = app
        self._terminal = terminal
        self._every = every
        self._state = WatchState(app.description)
        self._keyboard = Keyboard()
        self._recent = RecentFindings(app.admin.doctor)
        self._look_now = asyncio.Event()
        self._draw_now = asyncio.Event()
        self._action: asyncio.Task[None] | None = None
        self._interrupted_by = ""
        self._code: int | None = None

    async def run(self) -> int:
        """Run until a key or a signal ends it. Returns the exit code."""
        looking = asyncio.create_task(self._look())
        try:
            while self._code is None:
                with self._listening(), self._terminal.entered():
                    await self._draw(looking)
                if self._interrupted_by == "SIGTSTP":
                    signal.raise_signal(signal.SIGTSTP)  # returns when the shell continues the process
            return self._code
        finally:
            await self._close(looking)

    async def _look(self) -> None:
        while True:
            began = time.monotonic()
            self._state.ask()
            try:
                self._state.update(await look(self._app), self._recent.get())
            except BackendUnavailable as error:
                self._state.fail(str(error))
            self._draw_now.set()
            rest = min(REST * (time.monotonic() - began), LONGEST_REST)
            await _wait(self._look_now, max(self._every, rest))

    async def _draw(self, looking: asyncio.Task[None]) -> None:
        """Draw until the end, or until the terminal has to be given back or taken again."""
        self._interrupted_by = ""
        while self._code is None and not self._interrupted_by:
            if looking.done():
                looking.result()  # an error ends the screen
            self._terminal.draw(frame(self._state, *self._terminal.size))
            await _wait(self._draw_now, QUICK_TICK if self._state.running else TICK)

    async def _close(self, looking: asyncio.Task[None]) -> None:
        if self._state.running:
            echo(f"left while {self._state.running}: it may be done in part", err=True)
        tasks = [task for task in (looking, self._action) if task]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CLOSE)
        with suppress(TimeoutError, HeadraceError):
            async with asyncio.timeout(CLOSE):
                await self._recent.close()
                await self._app.close()

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Handle signals and keys."""
        with ExitStack() as undo:
            if sys.platform != "win32":  # where Ctrl-C raises
                loop = asyncio.get_running_loop()
                for number, handler in self._handlers().items():
                    loop.add_signal_handler(number, handler)
                    undo.callback(loop.remove_signal_handler, number)
                if (keys := self._terminal.keys) is not None:
                    loop.add_reader(keys, self._read_keys, keys)
                    undo.callback(loop.remove_reader, keys)
            yield

    def _handlers(self) -> dict[signal.Signals, Callable[[], None]]:
        return {
            signal.SIGINT: partial(self._end, 0),
            signal.SIGTERM: partial(self._end, 128 + signal.SIGTERM),
            signal.SIGHUP: partial(self._end, 128 + signal.SIGHUP),
            signal.SIGWINCH: self._draw_now.set,
            signal.SIGTSTP: partial(self._interrupt, "SIGTSTP"),
            # The shell may have changed the terminal meanwhile.
            signal.SIGCONT: partial(self._interrupt, "SIGCONT"),
        }

    def _end(self, code: int) -> None:
        self._code = self._code or code
        self._draw_now.set()

    def _interrupt(self, name: str) -> None:
        self._interrupted_by = name
        self._draw_now.set()

    def _read_keys(self, keys: int) -> None:
        try:
            data = os.read(keys, 1024)
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            self._end(0)
        self._press(self._keyboard.feed(data))
        if self._keyboard.rest:
            asyncio.get_running_loop().call_later(ESCAPE_AFTER, self._press_escape)

    def _press_escape(self) -> None:
        self._press(self._keyboard.flush())

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            action = self._state.press(key)
            if action is not None and action.verb == "quit":
                self._end(0)
            elif action is not None:
                self._state.running = action
                self._action = asyncio.create_task(self._perform(action))
        self._draw_now.set()

    async def _perform(self, action: WatchAction) -> None:
        try:
            self._state.tell(await perform(self._app, action))
        except HeadraceError as error:
            self._state.tell(f"{action}: {short(str(error))}", error=True)
        finally:
            self._state.running = None
        self._look_now.set()
        self._draw_now.set()


async def perform(app: App, action: WatchAction) -> str:
    """Pause, resume or replay; says what was done."""
    place, admin = action.place, app.admin
    if action.verb == "replay":
        replayed = await admin.replay(**place.options)
        text = f"{counted(replayed, 'dead letter')} of {place} replayed"
        kept = len(replayed.duplicates)
        return f"{text}; {kept:,} stay dead: other jobs hold their unique keys by now" if kept else text
    if place.topic is not None and place.group is not None:
        change = admin.pause_group if action.verb == "pause" else admin.resume_group
        await change(place.topic, place.group)
    elif place.queue is not None:
        await (admin.pause if action.verb == "pause" else admin.resume)(place.queue)
    return f"{place} is paused; p resumes it" if action.verb == "pause" else f"{place} is resumed"


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not for longer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()
