"""The Python on our pages runs, block after block of a page, with what a reader would have at hand.

`docs/guides/testing.md` is not among them: it quotes `test_testing_your_own_code.py`. Nor is `events.md`,
which has a test of its own, nor are addresses of other people's servers (`fleet.md`).
"""

from __future__ import annotations

import ast
import re
from inspect import isawaitable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

#: What the pages take for granted.
AT_HAND = """
    import msgspec
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager
    from datetime import UTC, datetime, timedelta
    from headrace import App, Depends, Secret, current_job

    class OrderPlaced(msgspec.Struct):
        order_id: int

    yesterday = datetime.now(UTC) - timedelta(days=1)
    app = App("memory://")
"""

TOUR = """
    class Database: ...

    def get_db() -> Database:
        return Database()

    job = await add.enqueue(2, 3)
"""

#: A pool of connections to some database, and a client of something else.
RESOURCES = """
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
    App = lambda lifespan, make=App: make("memory://", lifespan=lifespan)
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

#: A page, and what it takes for granted besides.
PAGES = {
    "docs/guides/resources.md": RESOURCES,
    "docs/guides/schedules.md": SCHEDULES,
    "docs/guides/observability.md": OBSERVABILITY,
    "docs/guides/dashboard.md": "",
    "docs/concepts/partitions.md": "",
}


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


class Reader:
    """Types what it reads into one session, as in a notebook."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {"__name__": "shop"}

    async def type(self, text: str) -> None:
        code = compile(dedent(text), "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
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
    return Reader()


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_runs_from_its_beginning_to_its_end(page: str, reader: Reader) -> None:
    found = blocks(page)
    assert found
    for text in (AT_HAND, PAGES[page], *found):
        await reader.type(text)
    await reader.run_all()


async def test_the_tour_of_the_readme_runs(reader: Reader) -> None:
    shop, _, *tour = blocks("README.md")
    await reader.type(AT_HAND)
    await reader.type(shop)
    await reader.type(TOUR)
    for text in tour:
        # A group is there once a worker has begun to serve it.
        before, replay, after = text.partition("await orders.replay")
        await reader.type(before)
        if replay:
            await reader.known["app"].worker().run(burst=True)
            await reader.type(replay + after)
    await reader.run_all()
