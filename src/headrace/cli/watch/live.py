"""The screen's life: look at the store, draw, hear keys and signals, and none waits for another."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from headrace.app import App
from headrace.cli.render import echo
from headrace.core.errors import BackendUnavailable

from .frame import frame
from .keyboard import ALONE, Keyboard
from .looking import Looking
from .panel import Panel, Quit
from .screen import Screen
from .steering import Steering

#: Seconds between two drawings when nothing happens, and while something is being done.
TICK: Final = 1.0
QUICK_TICK: Final = 0.2

#: Looking is a small part of the time, also where a look takes long: one in so many parts, up to so many
#: seconds between two.
PART: Final = 4
LONGEST: Final = 5.0

#: Seconds that a store has to be closed; one that is away may never answer.
CLOSE: Final = 3.0


class Live:
    """`code = await Live(app, screen, every).run()`, made on the event loop that it runs on."""

    def __init__(self, app: App, screen: Screen, every: float) -> None:
        self._app = app
        self._screen = screen
        self._every = every
        self._panel = Panel(app.description)
        self._keyboard = Keyboard()
        self._looking = Looking(app)
        self._steering = Steering(app, self._panel)
        self._again = asyncio.Event()
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._doing: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Until it is ended; the exit code."""
        tasks = [asyncio.create_task(self._look()), asyncio.create_task(self._tick())]
        any_of: list[asyncio.Future[Any]] = [self._over, *tasks]
        try:
            with self._signals(), self._screen, self._keys():
                await asyncio.wait(any_of, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # it never ends well by itself
            return self._over.result()
        finally:
            await self._close([*tasks, *([self._doing] if self._doing else [])])

    # --- what goes on ------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            began = time.monotonic()
            self._again.clear()
            self._panel.ask()
            try:
                seen = await self._looking.look()
                self._panel.show(seen, self._looking.findings)
            except BackendUnavailable as error:
                self._panel.lose(str(error))
            self._draw()
            took = time.monotonic() - began
            with suppress(TimeoutError):
                async with asyncio.timeout(max(self._every, min(PART * took, LONGEST))):
                    await self._again.wait()

    async def _tick(self) -> None:
        """A clock that stands still, or a bar, would look like a store that does."""
        while True:
            self._draw()
            await asyncio.sleep(QUICK_TICK if self._panel.busy else TICK)

    def _draw(self) -> None:
        if not self._over.done():
            self._screen.draw(frame(self._panel, *self._screen.size))

    def _end(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    async def _close(self, tasks: list[asyncio.Task[None]]) -> None:
        if self._panel.busy:
            echo(f"left while {self._panel.busy}; the rest stays as it was", err=True)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CLOSE)
        with suppress(TimeoutError, BackendUnavailable):
            async with asyncio.timeout(CLOSE):
                await self._looking.close()
                await self._app.close()

    # --- keys --------------------------------------------------------------------------------------------

    @contextmanager
    def _keys(self) -> Iterator[None]:
        if not self._screen.has_keys:
            yield
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(self._screen.keys, self._typed)
        try:
            yield
        finally:
            loop.remove_reader(self._screen.keys)

    def _typed(self) -> None:
        data = self._screen.read()
        if not data:
            self._end(0)
        self._press(self._keyboard.feed(data))
        if self._keyboard.waits:
            asyncio.get_running_loop().call_later(ALONE, lambda: self._press(self._keyboard.settle()))

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            wish = self._panel.press(key)
            if isinstance(wish, Quit):
                self._end(0)
            elif wish is not None:
                self._doing = asyncio.create_task(self._steering.carry_out(wish))
                self._doing.add_done_callback(lambda _: self._done())
        self._draw()

    def _done(self) -> None:
        self._again.set()  # what was changed is to be seen
        self._draw()

    # --- signals -----------------------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handled: dict[str, Callable[[], Any]] = {
            "SIGINT": lambda: self._end(0),
            "SIGTERM": lambda: self._end(128 + signal.SIGTERM),
            "SIGHUP": lambda: self._end(129),
            "SIGWINCH": self._resized,
            "SIGTSTP": self._suspend,
            "SIGCONT": self._continue,
        }
        numbers = {getattr(signal, name): act for name, act in handled.items() if hasattr(signal, name)}
        with suppress(NotImplementedError):  # Windows, where Ctrl-C raises
            for number, act in numbers.items():
                loop.add_signal_handler(number, act)
        try:
            yield
        finally:
            with suppress(NotImplementedError):
                for number in numbers:
                    loop.remove_signal_handler(number)

    def _resized(self) -> None:
        self._screen.clear()
        self._draw()

    def _suspend(self) -> None:
        """Ctrl-Z: give the terminal back, stop as anybody would, and go on from here when told to."""
        loop = asyncio.get_running_loop()
        self._screen.leave()
        loop.remove_signal_handler(signal.SIGTSTP)
        signal.raise_signal(signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        self._continue()

    def _continue(self) -> None:
        if not self._over.done():
            self._screen.enter()
            self._again.set()
            self._resized()
