"""What is particular to the memory store: its URLs, its threads, and what it holds on to."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headrace.core.errors import ConfigurationError
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import DONE, Done, Kept, Settlement
from headrace.core.records.control import ControlMessage, PauseNotice
from headrace.core.runtime.clock import SECOND
from headrace.core.store import Store
from headrace.stores import open_store
from tests.support.waiting import wait_until

STREAM = Stream("queue", "work")
SOURCE = STREAM


def batch(*messages: Message, number: int = 1, producer: str = "producer") -> Batch:
    return Batch(STREAM, producer, number, list(messages))


async def claim(backend: Store, *, consumer: str = "worker-1", wait: float = 0) -> list[str]:
    claims = await backend.claim([SOURCE], consumer=consumer, limit=100, suspects=1, wait=wait)
    return [claim.id for claim in claims]


# --- URLs -------------------------------------------------------------------------------------------------


async def test_a_store_without_a_name_is_private() -> None:
    first, second = open_store("memory://"), open_store("memory://")
    await first.append(batch(Message("job", "greet", b"")))
    assert await claim(second) == []
    assert await claim(first) == ["job"]


async def test_a_store_with_a_name_is_shared_in_the_process() -> None:
    name = new_id()
    first, second = open_store(f"memory://{name}"), open_store(f"memory://{name}")
    await first.append(batch(Message("job", "greet", b"")))
    assert await claim(second) == ["job"]


async def test_a_namespace_is_a_store_of_its_own() -> None:
    name = new_id()
    first = open_store(f"memory://{name}", namespace="one")
    second = open_store(f"memory://{name}", namespace="two")
    await first.append(batch(Message("job", "greet", b"")))
    assert await claim(second) == []


async def test_a_shared_store_outlives_its_backends() -> None:
    name = new_id()
    first = open_store(f"memory://{name}")
    await first.append(batch(Message("job", "greet", b"")))
    await first.close()
    assert await claim(open_store(f"memory://{name}")) == ["job"]


@pytest.mark.parametrize(
    "url", ["memory:///", "memory://name/path", "memory://name?size=3", "memory://?x", "memory://a#b"]
)
def test_nothing_may_stand_behind_the_name(url: str) -> None:
    with pytest.raises(ConfigurationError, match="memory://name"):
        open_store(url)


@pytest.mark.parametrize("durability", ["relaxed", "fsync", "replicated", "nonsense"])
def test_memory_is_not_durable(durability: str) -> None:
    with pytest.raises(ConfigurationError, match="durability"):
        open_store("memory://", durability=durability)


@pytest.mark.parametrize(("url", "words"), [("memory://", "private"), ("memory://shop", "shop")])
def test_a_store_describes_itself(url: str, words: str) -> None:
    assert words in open_store(url).description


# --- threads ----------------------------------------------------------------------------------------------


def test_a_claim_that_waits_in_another_thread_is_woken() -> None:
    url = f"memory://{new_id()}"
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(run, claim(open_store(url), wait=50))
        run(open_store(url).append(batch(Message("job", "greet", b""))))
        assert waiting.result(10) == ["job"]


def test_a_waiter_in_another_thread_is_woken() -> None:
    url = f"memory://{new_id()}"
    backend = open_store(url)
    run(backend.append(batch(Message("job", "greet", b""))))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(run, open_store(url).wait_for_end(STREAM, "job", 50))
        run(_settle_one(backend))
        record = waiting.result(10)
    assert record is not None
    assert record.result == b"42"


async def _settle_one(backend: Store) -> None:
    (held,) = await backend.claim([SOURCE], consumer="worker-1", limit=1, suspects=1, wait=0)
    await backend.settle([Settlement(held, Done(Kept(b"42", 60 * SECOND)))])


def test_orders_are_heard_on_the_thread_of_the_listener() -> None:
    url = f"memory://{new_id()}"
    heard: list[tuple[ControlMessage, int]] = []
    listening = threading.Event()

    async def listen() -> int:
        stop = open_store(url).listen(lambda order: heard.append((order, threading.get_ident())))
        listening.set()
        await wait_until(lambda: heard)
        stop()
        return threading.get_ident()

    with ThreadPoolExecutor(1) as threads:
        listener = threads.submit(run, listen())
        assert listening.wait(10)
        run(open_store(url).pause(STREAM, paused=True))
        thread = listener.result(10)
    assert heard == [(PauseNotice(STREAM, True), thread)]


def test_a_listener_whose_loop_is_closed_disturbs_nobody() -> None:
    url = f"memory://{new_id()}"

    async def listen_and_go() -> None:
        open_store(url).listen(lambda order: None)

    run(listen_and_go())
    run(open_store(url).pause(STREAM, paused=True))


def test_threads_that_share_a_store_lose_nothing_and_do_nothing_twice() -> None:
    url, threads_count, jobs = f"memory://{new_id()}", 4, 500
    done: list[str] = []

    async def work(number: int) -> None:
        backend = open_store(url)
        for step in range(jobs):
            message = Message(f"{number}-{step}", "greet", b"")
            await backend.append(batch(message, number=step + 1, producer=f"producer-{number}"))
            held = await backend.claim([SOURCE], consumer=f"worker-{number}", limit=3, suspects=1, wait=0)
            await backend.settle([Settlement(each, DONE) for each in held])
            done.extend(each.id for each in held)

    with ThreadPoolExecutor(threads_count) as threads:
        for finished in [threads.submit(run, work(number)) for number in range(threads_count)]:
            finished.result(30)
    run(_drain(open_store(url), done))
    assert len(done) == len(set(done)) == threads_count * jobs


async def _drain(backend: Store, done: list[str]) -> None:
    while ids := await claim(backend):
        done.extend(ids)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


# --- memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay_us", [0, 3600 * SECOND], ids=["queued", "scheduled"])
async def test_what_was_cancelled_while_it_waited_is_let_go(delay_us: int) -> None:
    backend = open_store("memory://")
    tracemalloc.start()
    try:
        for number in range(2000):
            message = Message(str(number), "greet", bytes(10_000), delay_us=delay_us)
            await backend.append(batch(message, number=number + 1))
            await backend.cancel(STREAM, message.id, ttl_us=0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3_000_000


async def test_end_records_that_no_caller_asks_for_are_deleted_by_pruning() -> None:
    backend = open_store("memory://")
    for number in range(100):
        await backend.append(batch(Message(str(number), "greet", b""), number=number + 1))
        (held,) = await backend.claim([SOURCE], consumer="worker-1", limit=1, suspects=1, wait=0)
        await backend.settle([Settlement(held, Done(Kept(b"42", 1)))])
    assert await backend.prune(limit=70) == 70
    assert await backend.prune(limit=70) == 30
