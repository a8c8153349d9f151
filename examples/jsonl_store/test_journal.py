"""What the suite cannot know: the file, the processes that share it, and an app on top."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jsonl_store import JsonlStore

from headrace import App
from headrace.store import BackendUnavailable, Batch, Message, Stream

QUEUE = Stream("queue", "work")
HERE = Path(__file__).parent

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.jsonl"


async def opened(path: Path) -> JsonlStore:
    store = JsonlStore(path)
    await store.open()
    return store


async def append(store: JsonlStore, id: str) -> None:
    await store.append(Batch(QUEUE, id, 1, [Message(id, "greet", b"hello")]))


async def claimed_ids(store: JsonlStore) -> list[str]:
    # More than producers store until their pipes are full.
    claims = await store.claim([QUEUE], consumer="worker", limit=1_000_000, suspects=1, wait=0)
    return [claim.id for claim in claims]


async def test_a_line_that_was_not_finished_was_never_written(path: Path) -> None:
    store = await opened(path)
    await append(store, "first")
    await append(store, "second")
    await store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    store = await opened(path)
    await append(store, "third")
    assert await claimed_ids(store) == ["first", "third"]
    await store.close()
    again = await opened(path)
    assert (await again.counts(QUEUE)).running == 2
    await again.close()


async def test_processes_that_are_killed_lose_nothing_that_was_answered(path: Path) -> None:
    command = [sys.executable, "producer.py", str(path)]
    producers = {
        name: subprocess.Popen([*command, name], cwd=HERE, stdout=subprocess.PIPE, text=True)
        for name in ("a", "b")
    }
    stored: set[str] = set()
    for name, process in producers.items():
        assert process.stdout is not None
        stored |= {f"{name}-{process.stdout.readline().strip()}" for _ in range(50)}
    for name, process in producers.items():
        process.kill()
        rest, _ = process.communicate()
        stored |= {f"{name}-{line}" for line in rest.splitlines()}
    store = await opened(path)
    ids = await claimed_ids(store)
    assert stored <= set(ids)
    assert len(ids) == len(set(ids)) <= len(stored) + 2  # one of each was stored and not answered yet
    await store.close()


async def test_a_journal_that_cannot_be_read_is_an_error_of_the_store(path: Path) -> None:
    path.write_text('{"at_us": 1, "change": {"step": "Unheard"}}\n')
    with pytest.raises(BackendUnavailable, match="cannot be read at byte 0"):
        await opened(path)


async def test_an_error_of_a_step_leaves_no_trace(path: Path) -> None:
    store = await opened(path)
    await append(store, "first")
    before = path.read_bytes()
    with pytest.raises(BackendUnavailable, match="cannot be written as JSON"):
        await append(store, "\ud800")
    assert path.read_bytes() == before
    assert await claimed_ids(store) == ["first"]
    await store.close()


async def test_a_worker_that_finds_nothing_writes_nothing(path: Path) -> None:
    store = await opened(path)
    await append(store, "first")
    await claimed_ids(store)
    before = path.read_bytes()
    assert await claimed_ids(store) == []
    await store.promote([QUEUE], limit=10)
    await store.reclaim([QUEUE], limit=10)
    await store.prune(limit=10)
    assert path.read_bytes() == before
    await store.close()


async def test_an_app_runs_jobs_and_events_on_it(path: Path) -> None:
    app = App(store=JsonlStore(path))
    orders = app.topic("orders", int)
    seen: list[int] = []

    @app.task(result_ttl=60)
    async def add(left: int, right: int) -> int:
        await orders.publish(left + right)
        return left + right

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: int) -> None:
        seen.append(order)

    async with app:
        job = await add.enqueue(1, 2)
        await app.worker().run(burst=True)
        assert await job.result(timeout=10) == 3
        await app.worker().run(burst=True)
    assert seen == [3]
