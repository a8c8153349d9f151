"""App(store=…): a store that the user made, in place of a URL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace import App, ConfigurationError
from headrace.core.messages.ids import new_id
from headrace.stores import open_store
from tests.support.waiting import wait_until


def app_on(store_url: str) -> App:
    return App(store=open_store(store_url))


async def test_jobs_and_events_run_on_a_store_that_was_given() -> None:
    app = app_on("memory://")
    seen: list[int] = []
    topic = app.topic("numbers", int)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @topic.subscribe(group="readers")
    async def read(number: int) -> None:
        seen.append(number)

    async with app, app.worker():
        assert await (await add.enqueue(2, 3)).result(timeout=10) == 5
        await topic.publish(7)
        await wait_until(lambda: seen == [7])


def test_it_is_opened_once_for_each_event_loop(tmp_path: Path) -> None:
    app = app_on(f"sqlite:///{tmp_path / 'jobs.db'}")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async def enqueue() -> str:
        async with app:
            return (await add.enqueue(2, 3)).id

    ids = {asyncio.run(enqueue()), asyncio.run(enqueue()), add_from_plain_code(app, add.call(2, 3))}
    assert {job.id for job in app.sync.admin.jobs("default")} == ids
    app.sync.close()


def add_from_plain_code(app: App, call: Any) -> str:
    return app.sync.enqueue(call).id


def test_the_environment_does_not_count_beside_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_URL", "sqlite:///elsewhere.db")
    app = app_on(f"memory://{new_id()}")
    assert app.url is None
    assert "memory" in app.description


def test_a_url_and_a_store_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="a URL or a store=, not both"):
        App("memory://", store=open_store("memory://"))


@pytest.mark.parametrize("option", [{"namespace": "shop"}, {"durability": "fsync"}])
def test_what_only_a_url_can_have_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="goes with a URL"):
        App(store=open_store("memory://"), **option)


def test_something_that_is_no_store_is_refused() -> None:
    wrong: Any = "memory://"
    with pytest.raises(ConfigurationError, match="takes a store"):
        App(store=wrong)


async def test_closing_one_of_two_apps_leaves_a_shared_store_to_the_other(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'jobs.db'}")
    app, other = App(store=store), App(store=store)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app:
        job = await add.enqueue(2, 3)
        async with other:
            assert await other.job(job.id).status() == "queued"
        assert await job.status() == "queued"
