"""What the memory store must not keep: it lives as long as its process."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from headrace.core.messages.message import Batch, Message, Stream, group_stream
from headrace.core.messages.outcome import DONE, Settlement
from headrace.core.runtime.clock import MovableClock
from headrace.core.topics.topic import BEGINNING, NEW, Start, TopicRules
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore
from headrace.stores.memory.streams.log import TopicLog

TOPIC = Stream("topic", "orders")
BILLING = group_stream("orders", "billing")


@pytest.fixture
def store() -> SharedState:
    return SharedState()


@pytest.fixture
async def backend(store: SharedState) -> AsyncIterator[MemoryStore]:
    backend = MemoryStore(store, name="test", clock=MovableClock())
    yield backend
    await backend.close()


async def publish(backend: MemoryStore, number: int, *ids: str, key: str = "") -> None:
    await backend.append(
        Batch(TOPIC, "producer", number, [Message(id, "placed", b"", key=key) for id in ids])
    )


async def test_a_trimmed_event_is_forgotten(backend: MemoryStore, store: SharedState) -> None:
    await backend.declare_topic(TOPIC, TopicRules(max_length=1))
    await publish(backend, 1, "a", "b", "c")
    log = store.topic(TOPIC).log
    assert len(log) == len(log._events) == len(log._numbers) == 1
    assert log.get("a") is None


async def test_a_removed_group_is_a_name_and_nothing_more(backend: MemoryStore, store: SharedState) -> None:
    await backend.join(BILLING, BEGINNING)
    await publish(backend, 1, "a", "b")
    await backend.claim([BILLING], consumer="worker", limit=1, suspects=1, wait=0)
    stream_state = weakref.ref(store.stream_states[BILLING])
    await backend.remove_stream(BILLING)
    gc.collect()
    assert stream_state() is None


async def test_whoever_asks_for_a_removed_group_brings_nothing_back(
    backend: MemoryStore, store: SharedState
) -> None:
    await backend.join(BILLING, BEGINNING)
    await publish(backend, 1, "a")
    claims = await backend.claim([BILLING], consumer="worker", limit=1, suspects=1, wait=0)
    await backend.remove_stream(BILLING)
    await backend.settle([Settlement(claims[0], DONE)])
    await backend.claim([BILLING], consumer="worker", limit=1, suspects=1, wait=0.01)
    await backend.reclaim([BILLING], limit=1)
    await backend.counts(BILLING)
    await backend.keep_topics([BILLING], limit=1)
    assert BILLING not in store.stream_states
    assert store.topic(TOPIC).waiters == set()


async def test_readers_and_claims_leave_no_bell_behind(backend: MemoryStore, store: SharedState) -> None:
    await backend.join(BILLING, NEW)
    await backend.read(TOPIC, 0, consumer="reader", limit=1, wait=0.001)
    waiting = [
        asyncio.ensure_future(backend.read(TOPIC, 0, consumer="reader", limit=1, wait=10)),
        asyncio.ensure_future(backend.claim([BILLING], consumer="worker", limit=1, suspects=1, wait=10)),
    ]
    await asyncio.sleep(0)
    assert len(store.topic(TOPIC).waiters) == len(store.group(BILLING).waiters) == 1
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert store.topic(TOPIC).waiters == store.group(BILLING).waiters == set()
    assert not any(backend._waiting.values())


async def test_the_keys_of_an_ordered_group_are_forgotten(backend: MemoryStore, store: SharedState) -> None:
    await backend.join(BILLING, BEGINNING, ordered=True)
    for number, key in enumerate("abcabc"):
        await publish(backend, number + 1, f"{key}-{number}", key=key)
    while claims := await backend.claim([BILLING], consumer="worker", limit=2, suspects=1, wait=0):
        await backend.settle([Settlement(claim, DONE) for claim in claims])
    group = store.group(BILLING)
    assert (group.parking._holders, group.parking._lines, len(group.parking)) == ({}, {}, 0)
    assert group.entries == {}


async def test_groups_share_the_bytes_of_an_event(backend: MemoryStore, store: SharedState) -> None:
    groups = [group_stream("orders", name) for name in ("billing", "mail")]
    for group in groups:
        await backend.join(group, BEGINNING)
    await publish(backend, 1, "a")
    await backend.claim(groups, consumer="worker", limit=2, suspects=1, wait=0)
    first, second = (store.group(group).entries["a"].message for group in groups)
    assert first is second


def test_a_clock_that_is_set_back_does_not_confuse_the_log() -> None:
    log = TopicLog()
    for time_us in (100, 50, 60, 200):
        log.add(Message(str(time_us), "placed", b""), 0, time_us)
    assert log.position(Start("time", time_us=100)) == 0
    assert log.position(Start("time", time_us=101)) == 3


def test_an_id_that_was_written_twice_is_found_until_the_later_is_trimmed() -> None:
    log = TopicLog()
    for _ in range(2):
        log.add(Message("a", "placed", b""), 0, 1)
    assert log.trim(1, 10) == 1
    assert log.position(Start("event", event="a")) == 1
    assert log.trim(2, 10) == 1
    assert log.get("a") is None
