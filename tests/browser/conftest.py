"""A real Chromium, and the dashboard of a real worker on SQLite and on Redis.

What a browser complains about (errors of scripts, a violated policy, what could not be loaded) fails a test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.sample_app import SampleApp
from tests.support.servers import Fleet, available, missing, require
from tests.support.waiting import wait_until_sync

STORES = ("sqlite", pytest.param("redis", marks=pytest.mark.more))


def program() -> str:
    """The browser. Where it is missing, and could not be installed, the test is skipped: also in CI, since
    a browser is a hundred times the size of a server and not every machine may have one."""
    found = os.environ.get("HEADRACE_CHROMIUM") or shutil.which("chromium")
    if found is None:
        missing("no chromium on this machine, and `make setup` could not install it", optional=True)
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    chromium = program()
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("playwright is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Stand:
    """A running sample app, its dashboards, and an app of ours on the same store."""

    def __init__(self, url: str) -> None:
        self.sample = SampleApp(url)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.browser.sample_app", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None
        self.open, self.guarded, self.read_only = self._process.stdout.readline().split()

    def close(self) -> None:
        self.sample.app.sync.close()
        self._process.kill()
        self._process.communicate()


def redis_kind() -> str:
    kinds = [kind for kind, found in available().items() if found]
    return kinds[0] if kinds else next(iter(available()))


def url_of(store: str, directory: Path, servers: Fleet) -> str:
    if store == "sqlite":
        return f"sqlite:///{directory}/jobs.db"
    require(redis_kind())
    return servers.get(redis_kind()).url


@pytest.fixture(scope="session", params=STORES)
def stand(
    request: pytest.FixtureRequest, browser: Any, tmp_path_factory: pytest.TempPathFactory, servers: Fleet
) -> Iterator[Stand]:
    stand = Stand(url_of(request.param, tmp_path_factory.mktemp("sample"), servers))
    yield stand
    stand.close()


class Tab:
    """One page of a browser. `complaints`: what the browser had to say against it."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self._context = browser.new_context(**options)
        self.page = self._context.new_page()
        self.page.set_default_timeout(10_000)
        self.complaints: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.dialogs: list[str] = []
        self.page.on("dialog", self._asked)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.accept()

    def press(self, name: str, within: str = "main") -> str:
        """Press a button; answers what the next page says was done."""
        button = self.page.locator(within).get_by_role("button", name=name, exact=True).first
        with self.page.expect_navigation():  # the page before may show a message, too
            button.click()
        flash = self.page.locator(".flash")
        flash.wait_for()
        return str(flash.inner_text())

    def close(self) -> None:
        self._context.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    tab = Tab(browser, viewport={"width": 1200, "height": 900})
    yield tab
    complaints, shown = tab.complaints, tab.page.url
    tab.close()
    assert not complaints, f"{shown}: {complaints}"


def wait_for(sample: SampleApp, job: Any, status: str) -> None:
    wait_until_sync(lambda: sample.status(job) == status, message=f"{job} is {status}")
