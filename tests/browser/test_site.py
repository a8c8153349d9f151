"""The documentation site: it is built without warnings, and needs no network and no server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import headrace

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.more, pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    loads = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]*"')
    assert not {page.name: found[0] for page in pages if (found := loads.search(page.read_text()))}


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    anchors = set(re.findall(r'id="headrace\.(?:[a-z_]+\.)*(\w+)"', text))
    # A type and a module: both are on a page.
    assert set(headrace.__all__) - anchors == {"CallNext", "__version__", "signals"}


def test_the_reference_shows_no_default_of_an_option_that_has_none_of_its_own(site: Path) -> None:
    text = (site / "reference" / "tasks.html").read_text()
    shown = re.search(r"<b><code>unique_key</code></b>(.*?)–", text, re.DOTALL)
    assert shown
    assert "default" not in shown[1]


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def test_the_search_works_on_pages_that_are_opened_as_files(site: Path, page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").click()
    page.keyboard.type("graceful")
    page.wait_for_selector(".md-search-result__link")
    assert "Deployment" in page.locator(".md-search-result__list").inner_text()
    assert asked
    assert not [url for url in asked if not url.startswith("file:")]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("--reload", "The command line"),
        ("worker --children", "Deployment"),
        ("run_in", "Jobs"),
        ("admin.reset_group", "Admin"),
        ("RetryPolicy.exponential", "Retries and outcomes"),
    ],
)
def test_the_search_finds_flags_and_names_of_code(site: Path, page: Any, query: str, found: str) -> None:
    page.goto(f"{(site / 'index.html').as_uri()}?q={quote(query)}")
    titles = page.locator(".md-search-result__list h1")
    titles.first.wait_for()
    assert found in titles.all_inner_texts()


@pytest.mark.parametrize(
    ("shown", "commands"),
    [
        ("headrace status", ["headrace status shop:app"]),
        (
            "pip install 'headrace[redis]'",
            ["pip install 'headrace[redis]'", "export HEADRACE_URL=", "headrace w"],
        ),
    ],
)
def test_copied_commands_have_no_prompt_and_no_output(
    site: Path, page: Any, shown: str, commands: list[str]
) -> None:
    page.goto((site / "tutorial.html").as_uri())
    page.evaluate("document.addEventListener('copy', () => { copied = String(getSelection()) })")
    code = page.locator(".highlight", has_text=shown).first
    code.hover()
    code.get_by_title("Copy to clipboard").click()
    copied = page.wait_for_function("typeof copied === 'string' && copied").json_value().splitlines()
    assert [line[: len(command)] for line, command in zip(copied, commands, strict=True)] == commands
