"""The screen's life, with keys that are fed and frames that are kept."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from headrace import App
from headrace.cli.commands.snapshot import Snapshot
from headrace.cli.watch import looking
from headrace.cli.watch.live import Live
from headrace.cli.watch.screen import Screen
from headrace.core.errors import BackendUnavailable, ConfigurationError
from tests.waiting import wait_until

from .snapshots import snapshot

Enqueue = Callable[..., Any]


class FedScreen(Screen):
    """No terminal: keys come from a pipe, and the last frame is kept."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))
        self.has_keys = True
        self.shown = ""
        self.entered = 0
        self._out, self._in = os.pipe()

    def enter(self) -> None:
        self.entered += 1

    def leave(self) -> None:
        self.entered -= 1

    @property
    def keys(self) -> int:
        return self._out

    @property
    def size(self) -> tuple[int, int]:
        return 100, 30

    def draw(self, lines: Sequence[Text]) -> None:
        self.shown = "\n".join(line.plain for line in lines)

    def type(self, keys: bytes) -> None:
        os.write(self._in, keys)

    async def shows(self, text: str) -> None:
        await wait_until(lambda: text in self.shown, message=lambda: f"{text!r} in\n{self.shown}")

    def close(self) -> None:
        os.close(self._in)
        os.close(self._out)


@pytest.fixture
def screen() -> Iterator[FedScreen]:
    screen = FedScreen()
    yield screen
    screen.close()


async def ended(running: asyncio.Task[int]) -> int:
    async with asyncio.timeout(10):
        return await running


async def test_keys_steer_the_store_and_q_ends_it(app: App, screen: FedScreen) -> None:
    await app.enqueue(app.tasks["shop.mail"].call("ada"))
    running = asyncio.create_task(Live(app, screen, 0.05).run())
    await screen.shows("▸ mails")
    screen.type(b"p")
    await screen.shows("mails is paused; p lets it go on")
    await screen.shows("p resume")
    [queue] = await app.admin.queues()
    assert queue.paused
    screen.type(b"?")
    await screen.shows("this page")
    screen.type(b"\x1b")  # alone, after a moment: the help is left, not the screen
    await screen.shows("▸ mails")
    screen.type(b"q")
    assert await ended(running) == 0
    assert screen.entered == 0


async def test_a_lost_store_is_shown_and_comes_back_by_itself(
    app: App, screen: FedScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_gone = False

    async def look(app: App) -> Snapshot:
        if is_gone:
            raise BackendUnavailable("the server is gone")
        return snapshot()

    monkeypatch.setattr(looking, "look", look)
    running = asyncio.create_task(Live(app, screen, 0.01).run())
    await screen.shows("▸ default")
    is_gone = True
    await screen.shows("! the server is gone")
    assert "▸ default" in screen.shown
    is_gone = False
    await wait_until(lambda: "away" not in screen.shown)
    screen.type(b"\x1b")
    assert await ended(running) == 0


async def test_keys_are_heard_while_the_store_does_not_answer(
    app: App, screen: FedScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(app: App) -> Snapshot:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(looking, "look", look)
    running = asyncio.create_task(Live(app, screen, 0.01).run())
    await screen.shows("asking the store")
    screen.type(b"?")
    await screen.shows("this page")
    screen.type(b"q")
    assert await ended(running) == 0


async def test_what_cannot_be_mended_ends_it_with_the_terminal_given_back(
    app: App, screen: FedScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(app: App) -> Snapshot:
        raise ConfigurationError("this server cannot work")

    monkeypatch.setattr(looking, "look", look)
    with pytest.raises(ConfigurationError):
        await Live(app, screen, 0.01).run()
    assert screen.entered == 0


async def test_a_terminal_that_is_gone_ends_it(app: App) -> None:
    screen = FedScreen()
    running = asyncio.create_task(Live(app, screen, 0.05).run())
    await screen.shows("no queue and no topic")
    os.close(screen._in)
    assert await ended(running) == 0
    os.close(screen._out)


async def test_leaving_amid_a_replay_says_how_far_it_came(
    app: App, screen: FedScreen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def look(app: App) -> Snapshot:
        return snapshot()

    async def forever(**which: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(looking, "look", look)
    monkeypatch.setattr(app.admin, "dead", forever)
    running = asyncio.create_task(Live(app, screen, 0.05).run())
    await screen.shows("▸ default")
    screen.type(b"jry")
    await wait_until(lambda: "…" in screen.shown)
    screen.type(b"q")
    assert await ended(running) == 0
    assert "left while" in capsys.readouterr().err


def test_the_terminal_is_given_back_as_it_was_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, its = pty.openpty()
    with os.fdopen(its, "rb", buffering=0) as terminal, io.StringIO() as sink:
        before = termios.tcgetattr(terminal)
        monkeypatch.setattr(sys, "stdin", terminal)
        screen = Screen(Console(file=sink, force_terminal=True))

        def fail() -> None:
            with screen:
                assert termios.tcgetattr(terminal) != before
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert termios.tcgetattr(terminal) == before
        assert sink.getvalue().endswith("\x1b[?25h\x1b[?1049l")  # the cursor, and the shell's own screen
    os.close(ours)
