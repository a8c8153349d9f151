"""Runs the screen: reads the store, draws, and handles keys and signals. None of these waits for another."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headrace.admin.doctor import RecentFindings
from headrace.app import App
from headrace.cli.commands.snapshot import look
from headrace.cli.output.render import counted, echo, is_terminal, safe_text, short
from headrace.core.errors import BackendUnavailable, HeadraceError

from .state import WatchAction, WatchState
from .view import frame

#: Seconds between two drawings, and while an action is under way.
TICK, QUICK_TICK = 1.0, 0.2

#: After a look that took long, wait for so many times as long, and for so many seconds at most.
REST, LONGEST_REST = 4, 5.0

#: Seconds for closing a store, which may hang.
CLOSE: Final = 3.0

#: Seconds after which an escape that nothing follows is the key Esc.
ESCAPE_AFTER: Final = 0.05

_KEY: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O[ -~])|\x1b(?=[^\[O])|[^\x1b]", re.DOTALL)
_ARROWS: Final = {"A": "up", "B": "down", "H": "home", "F": "end"}
_NAMED: Final = {
    **{f"{prefix}{letter}": name for prefix in "[O" for letter, name in _ARROWS.items()},
    **{"[1~": "home", "[7~": "home", "[4~": "end", "[8~": "end", "[5~": "page up", "[6~": "page down"},
}


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
        self._ended = asyncio.Event()
        self._code = 0
        self._action: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Run until a key or a signal ends it. Returns the exit code."""
        tasks = [asyncio.create_task(each) for each in (self._look(), self._tick(), self._until_ended())]
        try:
            with self._signals(), self._terminal.entered(), self._keys():
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # an error ends the screen
            return self._code
        finally:
            await self._close([*tasks, *([self._action] if self._action else [])])

    async def _look(self) -> None:
        while True:
            began = time.monotonic()
            self._look_now.clear()
            self._state.ask()
            try:
                self._state.update(await look(self._app), self._recent.get())
            except BackendUnavailable as error:
                self._state.fail(str(error))
            self._draw()
            rest = min(REST * (time.monotonic() - began), LONGEST_REST)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(self._every, rest)):
                    await self._look_now.wait()

    async def _tick(self) -> None:
        while True:
            self._draw()
            await asyncio.sleep(QUICK_TICK if self._state.running else TICK)

    async def _until_ended(self) -> None:
        await self._ended.wait()

    def _draw(self) -> None:
        if not self._ended.is_set():
            self._terminal.draw(frame(self._state, *self._terminal.size))

    def _end(self, code: int) -> None:
        self._code = self._code or code
        self._ended.set()

    async def _close(self, tasks: list[asyncio.Task[None]]) -> None:
        if self._state.running:
            echo(f"left while {self._state.running}: it may be done in part", err=True)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CLOSE)
        with suppress(TimeoutError, HeadraceError):
            async with asyncio.timeout(CLOSE):
                await self._recent.close()
                await self._app.close()

    # --- keys --------------------------------------------------------------------------------------------

    @contextmanager
    def _keys(self) -> Iterator[None]:
        loop, keys = asyncio.get_running_loop(), self._terminal.keys
        if keys is not None:
            loop.add_reader(keys, self._read_keys)
        try:
            yield
        finally:
            if keys is not None:
                loop.remove_reader(keys)

    def _read_keys(self) -> None:
        data = self._terminal.read()
        if not data:
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
        self._draw()

    async def _perform(self, action: WatchAction) -> None:
        try:
            self._state.tell(await perform(self._app, action))
        except HeadraceError as error:
            self._state.tell(f"{action}: {short(str(error))}", error=True)
        finally:
            self._state.running = None
        self._look_now.set()
        self._draw()

    # --- signals -----------------------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers: dict[str, Callable[[], Any]] = {
            "SIGINT": lambda: self._end(0),
            "SIGTERM": lambda: self._end(128 + signal.SIGTERM),
            "SIGHUP": lambda: self._end(129),
            "SIGWINCH": self._draw,
            "SIGTSTP": self._suspend,
            "SIGCONT": self._resume,
        }
        numbers = {getattr(signal, name): each for name, each in handlers.items() if hasattr(signal, name)}
        with suppress(NotImplementedError):  # Windows, where Ctrl-C raises
            for number, handler in numbers.items():
                loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            with suppress(NotImplementedError):
                for number in numbers:
                    loop.remove_signal_handler(number)

    def _suspend(self) -> None:
        """Ctrl-Z: give the terminal back and stop. SIGCONT comes when the process goes on."""
        loop = asyncio.get_running_loop()
        self._terminal.leave()
        loop.remove_signal_handler(signal.SIGTSTP)
        signal.raise_signal(signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)

    def _resume(self) -> None:
        if not self._ended.is_set():
            self._terminal.enter()
            self._look_now.set()
            self._draw()


class Terminal:
    """The terminal, with a screen of our own and keys one by one. `leave` gives it back as it was."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(
            console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        # There is no termios on Windows, where Ctrl-C ends it.
        self._has_keys = find_spec("termios") is not None and is_terminal("stdin")
        self._before: list[Any] | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")  # for a terminal that is not UTF-8
        try:
            self.enter()
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Take the terminal, also when the shell has changed it meanwhile."""
        if self._has_keys:
            import termios
            import tty

            if self._before is None:
                self._before = termios.tcgetattr(sys.stdin)
            # Not after a flush: the user may have typed already.
            tty.setcbreak(sys.stdin, termios.TCSANOW)
        self._live.stop()
        self._live.start()

    def leave(self) -> None:
        with suppress(OSError):  # the terminal is gone
            self._live.stop()
        if self._before is not None:
            import termios

            with suppress(termios.error):
                # With a flush: further keys are not for the shell.
                termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, self._before)

    @property
    def keys(self) -> int | None:
        """The descriptor to read keys from, if there are keys."""
        return sys.stdin.fileno() if self._has_keys else None

    def read(self) -> bytes:
        """What was typed; nothing when the terminal is gone."""
        try:
            return os.read(self.keys or 0, 1024)
        except OSError:
            return b""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines now. rich would believe COLUMNS and LINES, which do not follow a change."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except (OSError, ValueError):
            return 80, 24
        return columns or 80, lines or 24

    def draw(self, lines: Sequence[Text]) -> None:
        self._console.size = self.size
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        self._live.update(Group(*map(safe_text, lines)), refresh=True)


class Keyboard:
    """Keys from the bytes that a terminal sends. They may come in any pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest = ""

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete now; unknown ones are left out."""
        text, self.rest = self.rest + self._decoder.decode(data), ""
        keys, at = [], 0
        while found := _KEY.match(text, at):
            at = found.end()
            name = "escape" if found[0] == "\x1b" else "enter" if found[0] in "\r\n" else found[0]
            keys.append(_NAMED.get(found[1], "") if found[1] else name)
        self.rest = text[at:]
        return [key for key in keys if key]

    def flush(self) -> list[str]:
        """Nothing has followed: an escape was the key Esc."""
        rest, self.rest = self.rest, ""
        return ["escape"] if rest == "\x1b" else []
