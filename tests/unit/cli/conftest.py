"""The command line on a SQLite file, run in this process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from headrace import App, Job, Secret
from headrace.cli.main import cli
from tests.support.waiting import wait_until
from tests.unit.cli.sample_app import Placed, make_shop


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store for this test; the working directory and the environment name no other."""
    # COLUMNS: xdist sets it, and tables would be cut to it.
    for name in [name for name in os.environ if name.startswith("HEADRACE_") or name == "COLUMNS"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def app(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """What `shop:app` means on the command line."""
    app = make_shop(url)
    module: Any = ModuleType("shop")
    module.app = app
    monkeypatch.setitem(sys.modules, "shop", module)
    yield app
    app.sync.close()


class Shell:
    """`headrace ...` as a person would type it, without a terminal."""

    def __call__(self, *words: str, typed: str | None = None) -> Result:
        result = CliRunner().invoke(cli, words, input=typed, prog_name="headrace")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *words: str) -> Any:
        """What the command prints, with `--json`."""
        result = self(*words, "--json")
        assert result.exit_code == 0, result.output
        return msgspec.json.decode(result.stdout)

    def refused(self, *words: str) -> str:
        """The words of a command that is told that its usage is wrong, and has printed nothing else."""
        result = self(*words)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        return result.stderr

    def failed(self, *words: str) -> str:
        """The words of a command that has failed."""
        result = self(*words)
        assert result.exit_code == 1, result.output
        return result.stderr


@pytest.fixture
def headrace() -> Shell:
    return Shell()


@pytest.fixture
def enqueue(app: App) -> Callable[..., Job[Any]]:
    """`enqueue("shop.add", 1, 2, delay=60)`: straight into the store."""

    def enqueue(task: str, *args: Any, **options: Any) -> Job[Any]:
        return app.sync.enqueue(app.tasks[task].call(*args).with_(**options))

    return enqueue


@pytest.fixture
def publish(app: App) -> Callable[..., str]:
    """`publish(7, key="customer-3")`: an order, straight into the store."""

    def publish(number: int, **options: Any) -> str:
        return app.sync.publish("orders", Placed(number, Secret("4111")), **options)

    return publish


@pytest.fixture
def drain(app: App, url: str) -> Callable[[], None]:
    """Run what is due, as a worker elsewhere would."""

    def drain() -> None:
        asyncio.run(_drain(make_shop(url)))

    return drain


@pytest.fixture
def working(app: App, url: str) -> Callable[[], AbstractContextManager[None]]:
    """With a worker on another thread, and an app of its own."""

    @contextmanager
    def working() -> Iterator[None]:
        done = threading.Event()
        ready = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(_work(make_shop(url), ready, done)))
        thread.start()
        assert ready.wait(10)
        try:
            yield
        finally:
            done.set()
            thread.join(10)

    return working


async def _drain(app: App) -> None:
    async def nothing_waits() -> bool:
        groups = [group for topic in await app.admin.topics() for group in topic.groups]
        return not any(
            [
                *(queue.queued + queue.running for queue in await app.admin.queues()),
                *(group.lag + group.running for group in groups),
            ]
        )

    async with app, app.worker():
        await wait_until(nothing_waits)


async def _work(app: App, ready: threading.Event, done: threading.Event) -> None:
    async with app, app.worker():
        ready.set()
        await asyncio.to_thread(done.wait, 30)
