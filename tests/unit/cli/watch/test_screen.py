"""The screen's life, with keys that are fed and frames that are kept."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from rich.console import Console, RenderableType

from headrace import App
from headrace.cli.status.snapshot import Snapshot
from headrace.cli.watch import screen as screen_module
from headrace.cli.watch.screen import WatchScreen
from headrace.cli.watch.terminal import Terminal
from headrace.core.errors import BackendUnavailable, ConfigurationError
from tests.support.waiting import wait_until

from .snapshots import drawn, snapshot

Enqueue = Callable[..., Any]


class FedTerminal(Terminal):
    """No terminal: keys come from a pipe, and the last frame is kept."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))
        self.shown = ""
        self.depth = 0
        self._out, self._in = os.pipe()
        self.keys = self._out

    @contextmanager
    def entered(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    @property
    def size(self) -> tuple[int, int]:
        return 100, 30

    def draw(self, view: RenderableType) -> None:
        self.shown = "\n".join(drawn(view, *self.size))

    def type(self, keys: bytes) -> None:
        os.write(self._in, keys)

    async def shows(self, text: str) -> None:
        await wait_until(lambda: text in self.shown, message=lambda: f"{text!r} in\n{self.shown}")

    def close(self) -> None:
        os.close(self._in)
        os.close(self._out)


@pytest.fixture
def terminal() -> Iterator[FedTerminal]:
    terminal = FedTerminal()
    yield terminal
    terminal.close()


async def ended(running: asyncio.Task[int]) -> int:
    async with asyncio.timeout(10):
        return await running


async def test_keys_steer_the_store_and_q_ends_it(app: App, terminal: FedTerminal) -> None:
    await app.enqueue(app.tasks["shop.mail"].call("ada"))
    running = asyncio.create_task(WatchScreen(app, terminal, 0.05).run())
    await terminal.shows("▸ mails")
    terminal.type(b"p")
    await terminal.shows("mails is paused; p resumes it")
    await terminal.shows("p resume")
    [queue] = await app.admin.queues()
    assert queue.paused
    terminal.type(b"?")
    await terminal.shows("this page")
    terminal.type(b"\x1b")  # alone, after a moment: the help is left, not the screen
    await terminal.shows("▸ mails")
    terminal.type(b"q")
    assert await ended(running) == 0
    assert terminal.depth == 0


async def test_an_action_that_fails_is_shown_and_the_next_one_is_possible(
    app: App, terminal: FedTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(queue: str) -> None:
        raise BackendUnavailable("the store is gone")

    monkeypatch.setattr(app.admin, "pause", fail)
    await app.enqueue(app.tasks["shop.mail"].call("ada"))
    running = asyncio.create_task(WatchScreen(app, terminal, 0.05).run())
    await terminal.shows("▸ mails")
    terminal.type(b"p")
    await terminal.shows("pausing mails: the store is gone")
    terminal.type(b"r")
    await terminal.shows("queue mails has no dead letters")
    terminal.type(b"q")
    assert await ended(running) == 0


async def test_a_lost_store_is_shown_and_comes_back_by_itself(
    app: App, terminal: FedTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_gone = False

    async def look(app: App) -> Snapshot:
        if is_gone:
            raise BackendUnavailable("the server is gone")
        return snapshot()

    monkeypatch.setattr(screen_module, "look", look)
    running = asyncio.create_task(WatchScreen(app, terminal, 0.01).run())
    await terminal.shows("▸ default")
    is_gone = True
    await terminal.shows("! the server is gone")
    assert "▸ default" in terminal.shown
    is_gone = False
    await wait_until(lambda: "unavailable" not in terminal.shown)
    terminal.type(b"\x1b")
    assert await ended(running) == 0


async def test_keys_are_heard_while_the_store_does_not_answer(
    app: App, terminal: FedTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(app: App) -> Snapshot:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(screen_module, "look", look)
    running = asyncio.create_task(WatchScreen(app, terminal, 0.01).run())
    await terminal.shows("asking the store")
    terminal.type(b"?")
    await terminal.shows("this page")
    terminal.type(b"q")
    assert await ended(running) == 0


async def test_what_cannot_be_mended_ends_it_with_the_terminal_given_back(
    app: App, terminal: FedTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(app: App) -> Snapshot:
        raise ConfigurationError("this server cannot work")

    monkeypatch.setattr(screen_module, "look", look)
    with pytest.raises(ConfigurationError):
        await WatchScreen(app, terminal, 0.01).run()
    assert terminal.depth == 0


async def test_a_terminal_that_is_gone_ends_it(app: App) -> None:
    terminal = FedTerminal()
    running = asyncio.create_task(WatchScreen(app, terminal, 0.05).run())
    await terminal.shows("no queue and no topic")
    os.close(terminal._in)
    assert await ended(running) == 0
    os.close(terminal._out)


async def test_leaving_amid_a_replay_says_how_far_it_came(
    app: App, terminal: FedTerminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def look(app: App) -> Snapshot:
        return snapshot()

    async def forever(**which: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(screen_module, "look", look)
    monkeypatch.setattr(app.admin, "replay", forever)
    running = asyncio.create_task(WatchScreen(app, terminal, 0.05).run())
    await terminal.shows("▸ default")
    terminal.type(b"jry")
    await wait_until(lambda: "replaying mails" in terminal.shown)
    terminal.type(b"q")
    assert await ended(running) == 0
    assert "left while" in capsys.readouterr().err


def test_the_terminal_is_given_back_as_it_was_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, its = pty.openpty()
    with os.fdopen(its, "rb", buffering=0) as device, io.StringIO() as sink:
        before = termios.tcgetattr(device)
        monkeypatch.setattr(sys, "stdin", device)
        terminal = Terminal(Console(file=sink, force_terminal=True))

        def fail() -> None:
            with terminal.entered():
                assert termios.tcgetattr(device) != before
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert termios.tcgetattr(device) == before
        assert sink.getvalue().endswith("\x1b[?25h\x1b[?1049l")  # the cursor, and the shell's own screen
    os.close(ours)
