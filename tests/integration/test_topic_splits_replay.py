"""An ordered group that reads history again over a split, on real stores, with several members that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from headrace import App, Event
from tests.waiting import wait_until

from .workshop import Workshop

KEYS = [f"customer-{number}" for number in range(4)]


class Member:
    """A process of its own as far as the store can tell. Of the events from before the split it handles one
    only when it is let."""

    let: asyncio.Event
    begun: list[tuple[str, int]]
    plain: list[int]

    def __init__(self, url: str, shared: Member | None = None) -> None:
        self.app = App(url)
        self.orders = self.app.topic("orders", int)
        self.let = shared.let if shared else asyncio.Event()
        self.begun = shared.begun if shared else []
        self.plain = shared.plain if shared else []

        @self.orders.subscribe("billing", ordered=True, start="beginning")
        async def bill(event: Event[int]) -> None:
            self.begun.append((event.key or "", event.payload))
            if event.payload == 0:
                await self.let.wait()

        @self.orders.subscribe("mail", start="beginning")
        async def mail(number: int) -> None:
            self.plain.append(number)

    async def publish(self, number: int) -> None:
        await self.orders.publish_many([self.orders.message(number, key=key) for key in KEYS])


@pytest.fixture
async def members(workshop: Workshop) -> AsyncIterator[list[Member]]:
    first = Member(workshop.url)
    members = [first, Member(workshop.url, first), Member(workshop.url, first)]
    async with AsyncExitStack() as stack:
        for member in members:
            await stack.enter_async_context(member.app)
            await stack.enter_async_context(member.app.worker(queues=[]))
        yield members
        first.let.set()


@pytest.mark.parametrize("workshop", ["sqlite", "valkey-9.1"], indirect=True)
async def test_history_is_read_again_in_order_by_members_that_wait_at_all_parts(
    members: list[Member],
) -> None:
    first = members[0]
    first.let.set()
    await first.publish(0)
    await first.app.admin.split_topic("orders", 3)
    await first.publish(1)
    await wait_until(lambda: len(first.begun) == 8 and len(first.plain) == 8)
    first.let.clear()
    first.begun.clear()

    await first.orders.replay(group="billing", since="beginning")
    await first.orders.replay(group="mail", since="beginning")
    await wait_until(lambda: len(first.plain) == 16)  # by then the others would have had theirs, too
    assert sorted(first.begun) == [(key, 0) for key in KEYS]
    first.let.set()
    await wait_until(lambda: len(first.begun) == 8)
    assert sorted(first.begun[4:]) == [(key, 1) for key in KEYS]
