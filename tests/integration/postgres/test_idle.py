"""What a worker with nothing to do sends to the server."""

from __future__ import annotations

from time import monotonic

import pytest

from headrace import App
from headrace.core.messages.ids import new_id
from headrace.testing.waiting import wait_until
from tests.integration.support.postgres_steps import execute, value_of
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio

#: Seconds that are counted.
SPAN = 15.0

COUNT = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_%'"


async def test_an_idle_worker_sends_at_most_three_statements_a_second() -> None:
    settings = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_utility": "off"}
    with PostgresServer(settings=settings) as server:
        await execute(server, "CREATE EXTENSION pg_stat_statements")
        app = App(server.url, outbox=server.url, namespace=new_id())
        topic = app.topic("orders", str)
        ran: list[str] = []

        @app.task(name="work")
        async def work() -> None:
            ran.append("job")

        @topic.subscribe(group="billing")
        async def bill(order: str) -> None:
            ran.append(order)

        async with app, app.worker():
            await work.enqueue()
            await topic.publish("order")
            await wait_until(lambda: sorted(ran) == ["job", "order"], timeout=60)
            began, before = monotonic(), await value_of(server, COUNT)
            await wait_until(lambda: monotonic() >= began + SPAN, timeout=2 * SPAN)
            sent, lasted = await value_of(server, COUNT), monotonic() - began
        assert isinstance(sent, int)
        assert isinstance(before, int)
        assert (sent - before) / lasted <= 3
