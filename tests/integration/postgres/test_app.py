"""An app on PostgreSQL."""

from __future__ import annotations

import pytest

from headrace import App
from headrace.core.messages.ids import new_id
from headrace.testing.waiting import wait_until
from tests.support.postgres_proxy import BreakingProxy
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


async def test_an_app_runs_jobs_and_events(server: PostgresServer) -> None:
    app = App(server.url, namespace=new_id())
    seen: list[str] = []

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    topic = app.topic("orders", str)

    @topic.subscribe(group="billing")
    async def bill(order: str) -> None:
        seen.append(order)

    async with app, app.worker(concurrency=2):
        job = await double.enqueue(21)
        assert await job.result(timeout=30) == 42
        await topic.publish("a")
        await wait_until(lambda: seen == ["a"], timeout=30)


@pytest.mark.parametrize("unique", [False, True])
async def test_a_job_whose_answer_is_lost_is_sent_again_and_stored_once(
    server: PostgresServer, unique: bool
) -> None:
    async with BreakingProxy(server) as proxy:
        app = App(proxy.url, namespace=new_id())

        @app.task(name="double", unique=unique)
        async def double(number: int) -> int:
            return 2 * number

        async with app:
            await double.enqueue(1)
            proxy.lose_answer_of(b"COMMIT\0" if unique else b"append_plain")
            job = await double.enqueue(2)
            assert (job.duplicate, proxy.broken) == (False, 1)
            [queue] = await app.admin.queues()
            assert queue.queued == 2
            async with app.worker():
                assert await job.result(timeout=30) == 4
