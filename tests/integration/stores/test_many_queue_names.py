"""A producer that names a new queue for each tenant, order or day does not grow with them."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from headrace import App
from headrace.core.messages.ids import new_id
from tests.support.servers import Fleet, also

#: Names from which on it forgets, and how many there are in all.
FIRST, ALL = 1000, 3000


@pytest.mark.parametrize("store", ["sqlite", *also("redis-7.0")])
async def test_a_producer_keeps_nothing_of_most_queues(store: str, tmp_path: Path, servers: Fleet) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if store == "sqlite" else servers.get(store).url
    app = App(url, namespace=new_id())

    @app.task(name="tidy")
    async def tidy() -> None: ...

    async def enqueue(first: int, number: int) -> None:
        for start in range(first, first + number, 50):
            await app.enqueue_many([tidy.with_(queue=f"tenant-{start + n:04}").call() for n in range(50)])

    async with app:
        tracemalloc.start()
        try:
            await enqueue(0, FIRST)
            before = traced()
            await enqueue(FIRST, ALL - FIRST)
            assert traced() < 1.5 * before
        finally:
            tracemalloc.stop()
        for _ in range(2):
            await enqueue(0, 50)  # again into those of the beginning, of which nothing is known any more
        queues = await app.admin.queues()
        assert [queue.queued for queue in queues] == [3] * 50 + [1] * (ALL - 50)


def traced() -> int:
    """Bytes in use."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
