"""Appending to a store that takes two appends at once: a crowd is served in turns, and nothing gets lost or
mixed up between them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.answers import Answer
from headrace.engine.producing.producer import CROWD, Producer
from headrace.engine.producing.producer_lane import BATCH_MESSAGES
from headrace.engine.streams import StreamRouter
from tests.support.intercepted_store import InterceptedStore

MAILS = Stream("queue", "mails")
ORDERS = Stream("topic", "orders")


class Store:
    """Answers when the loop has turned some times, and notes what was under way together."""

    def __init__(self, seed: int = 0) -> None:
        store = InterceptedStore()
        store.appends_at_once = 2
        store.intercept("append", self._append)
        self.producer = Producer(StreamRouter(store))
        self.batches: list[Batch] = []
        self.under_way: Counter[str] = Counter()  # by producer
        self.most = 0
        self._turns = random.Random(seed)

    async def _append(self, batch: Batch) -> list[Answer]:
        self.batches.append(batch)
        self.under_way[batch.producer] += 1
        assert self.under_way[batch.producer] == 1, "one at a time under one name"
        self.most = max(self.most, self.under_way.total())
        for _ in range(self._turns.randrange(1, 5)):
            await asyncio.sleep(0)
        self.under_way[batch.producer] -= 1
        return [Answer(message.id) for message in batch.messages]

    async def append(self, count: int, stream: Stream = MAILS) -> None:
        sent = [Message(new_id(), "send", b"x") for _ in range(count)]
        answers = await self.producer.append(stream, sent, None)
        assert [answer.id for answer in answers] == [message.id for message in sent]

    async def append_one_by_one(self, count: int, stream: Stream = MAILS) -> None:
        for _ in range(count):
            await self.append(1, stream)

    def ids(self) -> list[str]:
        return [message.id for batch in self.batches for message in batch.messages]


async def test_while_the_store_is_at_work_for_some_of_a_crowd_others_send_theirs() -> None:
    store = Store()
    await asyncio.gather(*(store.append_one_by_one(20) for _ in range(4 * CROWD)))
    assert store.most == 2
    assert len(store.ids()) == len(set(store.ids())) == 80 * CROWD
    for name in {batch.producer for batch in store.batches}:
        numbers = [batch.number for batch in store.batches if batch.producer == name]
        assert numbers == [*range(1, len(numbers) + 1)]


async def test_a_few_go_together_as_ever() -> None:
    store = Store()
    await asyncio.gather(*(store.append_one_by_one(20) for _ in range(CROWD - 1)))
    assert store.most == 1


async def test_events_are_sent_one_batch_after_the_other() -> None:
    store = Store()
    await asyncio.gather(*(store.append_one_by_one(20, ORDERS) for _ in range(4 * CROWD)))
    assert store.most == 1


@pytest.mark.parametrize("seed", range(20))
async def test_requests_of_any_size_are_answered_each_in_its_order(seed: int) -> None:
    chance = random.Random(seed)
    store = Store(seed)

    async def caller() -> None:
        for _ in range(chance.randrange(1, 12)):
            large = chance.random() < 0.05
            await store.append(chance.randrange(2, 3 * BATCH_MESSAGES) if large else 1)
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)

    async with asyncio.timeout(20):
        await asyncio.gather(*(caller() for _ in range(3 * CROWD)))
        await store.producer.close()
    assert len(store.ids()) == len(set(store.ids()))
    assert not store.under_way.total()


async def test_larger_requests_that_come_at_any_moment_are_not_left_lying() -> None:
    """The second leaves them to the first, which may be about to go."""
    store = Store()
    crowd = asyncio.gather(*(store.append_one_by_one(5) for _ in range(2 * CROWD)))
    requests = []
    while not crowd.done():
        requests.append(asyncio.create_task(store.append(2)))
        await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await asyncio.gather(crowd, *requests)
    assert len(store.ids()) == 10 * CROWD + 2 * len(requests)
