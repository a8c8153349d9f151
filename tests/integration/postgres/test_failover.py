"""A standby takes over. The URL names both servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from headrace import App, BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.testing.waiting import wait_until
from tests.integration.support.postgres_steps import execute, value_of
from tests.support.postgres_server import HOST, USER, PostgresServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    with PostgresServer() as primary, PostgresServer(standby_of=primary) as standby:
        yield primary, standby


async def test_an_app_follows_to_the_standby_that_takes_over(
    pair: tuple[PostgresServer, PostgresServer],
) -> None:
    """The standby has each commit before it is answered, so nothing that was answered is lost."""
    primary, standby = pair

    async def is_streaming() -> bool:
        return bool(
            await value_of(primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
        )

    await wait_until(is_streaming, timeout=60)
    await execute(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
    await execute(primary, "SELECT pg_reload_conf()")
    hosts = f"{HOST}:{primary.port},{HOST}:{standby.port}"
    url = f"postgresql://{USER}@{hosts}/postgres?target_session_attrs=read-write"
    app = App(url, namespace=new_id(), durability="replicated")
    runs: Counter[int] = Counter()

    @app.task(name="count")
    async def count(number: int) -> None:
        runs[number] += 1

    async def enqueue(numbers: range) -> None:
        for number in numbers:
            answered = False
            while not answered:
                try:
                    await count.enqueue(number)
                    answered = True
                except BackendUnavailable:
                    pass  # the producer has tried for a while

    async with app, app.worker(concurrency=5, lease=5):
        await enqueue(range(20))
        await wait_until(lambda: len(runs) == 20, timeout=60)
        enqueuing = asyncio.create_task(enqueue(range(20, 60)))
        await asyncio.to_thread(primary.kill)
        await execute(standby, "SELECT pg_promote()")
        await enqueuing
        await wait_until(lambda: len(runs) == 60, timeout=90)
