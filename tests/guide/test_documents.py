"""The Python on our pages runs, block after block of a page, with what a reader would have at hand."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from inspect import isawaitable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from headrace.cli.demo import demo

ROOT = Path(__file__).parents[2]

#: What the pages take for granted: an app and a type of event. What a page uses besides, it imports itself.
AT_HAND = """
    import headrace
    import msgspec

    class OrderPlaced(msgspec.Struct):
        order_id: int

    app = headrace.App("memory://")
    del headrace, msgspec
"""

#: A pool of connections to some database, and a client of something else.
RESOURCES = """
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager
    from types import SimpleNamespace

    DSN = ""

    class Connection:
        async def execute(self, *words: str) -> None: ...

        @asynccontextmanager
        async def transaction(self) -> AsyncIterator[None]:
            yield

    class Pool(Connection):
        @asynccontextmanager
        async def acquire(self) -> AsyncIterator[Connection]:
            yield Connection()

    @asynccontextmanager
    async def create_pool(dsn: str) -> AsyncIterator[Pool]:
        yield Pool()

    async def done(*words: str) -> None: ...

    fake, client = Connection(), SimpleNamespace(login=done)
"""

SCHEDULES = """
    @app.task
    async def report(number: int) -> None: ...

    @app.task
    async def ping() -> None: ...
"""

OBSERVABILITY = """
    from starlette.requests import Request
    from starlette.responses import Response

    class api:
        get = staticmethod(lambda path: lambda function: function)
"""

#: A key in the environment, and a place where a password is kept.
SECURITY = """
    import os
    from headrace.core.crypto.keys import new_key

    os.environ["HEADRACE_KEYS"] = OLD_KEY = new_key()
    NEW_KEY = new_key()

    class vault:
        read = staticmethod(lambda path: "secret")
"""

#: The database of a shop, with the tables of an outbox.
TRANSACTIONS = """
    import sqlite3
    from headrace.stores.outbox import schema_of

    await schema_of("sqlite:///shop.db")
    with sqlite3.connect("shop.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.close()
"""

#: A database with the tables of an outbox.
SQLALCHEMY = """
    from headrace.stores.outbox import schema_of

    await schema_of("sqlite:///shop.db")
"""

#: A page, and what it takes for granted besides.
PAGES = {
    "docs/guides/jobs.md": "",
    "docs/guides/limits.md": "",
    "docs/guides/history.md": "",
    "docs/guides/queues.md": "",
    "docs/guides/resources.md": RESOURCES,
    "docs/guides/schedules.md": SCHEDULES,
    "docs/guides/observability.md": OBSERVABILITY,
    "docs/guides/dashboard.md": "",
    "docs/guides/security.md": SECURITY,
    "docs/guides/transactions.md": TRANSACTIONS,
    "docs/guides/deployment.md": "",
    "docs/guides/failed-jobs.md": "",
    "docs/guides/upgrading.md": "",
    "docs/integrations/fastapi.md": "",
    "docs/integrations/flask.md": "",
    "docs/integrations/sqlalchemy.md": SQLALCHEMY,
    "docs/concepts/memory.md": "",
    "docs/concepts/partitions.md": "",
    "docs/migration/index.md": "",
    "docs/migration/arq.md": "",
    "docs/migration/celery.md": "",
    "docs/migration/dramatiq.md": "",
    "docs/migration/huey.md": "",
    "docs/migration/rq.md": "",
    "docs/migration/taskiq.md": "",
    "docs/reference/signals.md": "",
}

#: Pages with Python that other tests run, or that cannot run here.
ELSEWHERE = {
    "docs/index.md": "test_readme.py",
    "docs/tutorial.md": "test_tutorial.py",
    "docs/guides/django.md": "test_django_guide.py",
    "docs/guides/events.md": "test_events_guide.py",
    "docs/guides/testing.md": "it quotes test_testing_your_own_code.py",
    "docs/guides/fleet.md": "addresses of servers",
    "docs/integrations/sentry.md": "tests/integration/frameworks/test_sentry.py",
    "docs/integrations/structlog.md": "tests/integration/frameworks/test_structlog.py",
}


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


class Reader:
    """Types what it reads into one session, as in a notebook."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {"__name__": "shop"}

    async def type(self, text: str) -> None:
        code = compile(dedent(text), "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        waiting = eval(code, self.known)
        if isawaitable(waiting):
            await waiting

    async def run_all(self) -> None:
        """What was enqueued and published is run, and nothing of it fails."""
        app = self.known["app"]
        await app.worker().run(burst=True)
        assert not list(await app.admin.dead())
        await app.close()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_URL", raising=False)
    monkeypatch.setenv("HEADRACE_KEYS", "")  # a page may set it
    return Reader()


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_runs_from_its_beginning_to_its_end(page: str, reader: Reader) -> None:
    found = blocks(page)
    assert found
    for text in (AT_HAND, PAGES[page], *found):
        await reader.type(text)
    await reader.run_all()


def test_no_page_with_python_is_left_out() -> None:
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if blocks(page)} == {*PAGES, *ELSEWHERE}


def test_the_page_about_testing_quotes_tests_that_run() -> None:
    lines = (ROOT / "tests/guide/test_testing_your_own_code.py").read_text().splitlines()
    quoted = "".join(blocks("docs/guides/testing.md")).splitlines()
    assert {line.strip() for line in quoted} <= {line.strip() for line in lines}


@pytest.fixture
def readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The snippets of the README. Those that begin with the name of a file lie there; these are the rest."""
    monkeypatch.syspath_prepend(tmp_path)
    typed, modules = [], []
    for text in blocks("README.md"):
        named = re.match(r"# (\w+)\.py\n", text)
        if named is None:
            typed.append(text)
        else:
            (tmp_path / f"{named[1]}.py").write_text(text)
            modules.append(named[1])
    yield typed
    for name in modules:
        sys.modules.pop(name, None)


async def test_every_snippet_of_the_readme_runs_by_itself(reader: Reader, readme: list[str]) -> None:
    for module in ("orders", "reports"):
        await reader.type(f"import {module}")
    await reader.type("from shop import app")
    app = reader.known["app"]
    for text in readme:
        # A group is there once a worker has begun to serve it.
        await app.worker().run(burst=True)
        await Reader().type(text)
    await reader.run_all()


def test_the_readme_begins_with_how_to_install_it() -> None:
    assert (ROOT / "README.md").read_text().index("$ pip install headrace\n") < 100


# --- what pages say of the project itself -----------------------------------------------------------------


#: A path, as far as its first `<name>`; or the name of a file.
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|lua|sql|md))[`<]")

#: Lines of two pages.
TWO_PAGES = 135

#: Looks like a path, and is the stream of a group.
_STREAM = "orders/billing"


def test_internals_name_only_what_exists() -> None:
    text = (ROOT / "docs/internals.md").read_text()
    assert len(text.splitlines()) <= TWO_PAGES
    text += (ROOT / "docs/concepts/engine.md").read_text()
    places = [ROOT, ROOT / "src/headrace", ROOT / "tests", *sorted((ROOT / "src/headrace").rglob("*/"))]
    named = {*_PATH.findall(text), *_tree(text)}
    assert len(named) > 50
    strange = {name for name in named if not any((place / name).exists() for place in places)}
    assert strange == {_STREAM}


@pytest.mark.parametrize("what", ["a job", "an event"])
def test_the_way_of_a_message_has_at_most_twelve_files(what: str) -> None:
    text = (ROOT / "docs/internals.md").read_text()
    way = text.split(f"## The way of {what}")[1].split("\n## ")[0]
    assert 5 < len(re.findall(r"`[\w/]+\.py`", way)) <= 12


def _tree(text: str) -> Iterator[str]:
    """The paths in the drawing of the tree."""
    drawing = text.split("## The tree")[1].split("```")[1]
    folder = ""
    for line in drawing.strip().splitlines():
        name = line.split()[0]
        folder = folder if line.startswith(" ") else name
        yield folder + name if line.startswith(" ") else name


def test_the_demo_takes_as_long_everywhere() -> None:
    page = re.search(r"`headrace demo` shows it in (.*?):", (ROOT / "README.md").read_text())
    command = re.search(r"takes (.*?), and fails", demo.help or "")
    assert page is not None
    assert command is not None
    assert page[1] == command[1]
