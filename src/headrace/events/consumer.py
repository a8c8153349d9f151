"""Pulls events: a member of a group that gives deliveries to a loop of the user instead of a handler.

A worker of its own claims the events. Its handler passes each delivery on and ends when the user has settled
it. So leases, retries and hand-backs are those of every worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from headrace.core.errors import ConfigurationError
from headrace.engine.declared.subscription import Acknowledgement
from headrace.engine.worker.worker import Worker

from .delivery import Delivery

T = TypeVar("T")

#: The handler of a consumer, and a function that makes a worker with this handler.
HandOver = Callable[[Delivery[Any]], Any]
MakeWorker = Callable[[HandOver], Worker]


class Consumer(Generic[T]):
    """What `topic.consume(...)` returns: `async with orders.consume(group="audit") as deliveries:`.

    It is a member of the group while it is open. Leaving the block hands back what is not settled; this uses
    up no retry.
    """

    def __init__(self, ack: Acknowledgement, make_worker: MakeWorker) -> None:
        self._ack = ack
        self._make_worker = make_worker
        self._deliveries: Deliveries[T] | None = None
        self._worker: Worker | None = None

    async def __aenter__(self) -> Deliveries[T]:
        if self._worker is not None:
            raise ConfigurationError("a consumer can be opened once; ask topic.consume() for another")
        deliveries = self._deliveries = Deliveries(self._ack)
        worker = self._worker = self._make_worker(deliveries.hand_over)
        await worker.__aenter__()
        # The app may be closed while the user waits for the next delivery. The worker stops before that.
        worker.when_stopped(deliveries.close)
        return deliveries

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._deliveries is not None
        assert self._worker is not None
        self._deliveries.close()
        await self._worker.__aexit__(kind, error, traceback)


class Deliveries(Generic[T]):
    """The deliveries of an open consumer: `async for delivery in deliveries:`.

    Several tasks may share them. With `ack="success"` only one may: a call for the next settles the last."""

    def __init__(self, ack: Acknowledgement) -> None:
        self._ack = ack
        self._ready: asyncio.Queue[PulledDelivery[T] | None] = asyncio.Queue()
        self._in_hand: PulledDelivery[T] | None = None
        self._closed = False

    def __aiter__(self) -> Deliveries[T]:
        return self

    async def __anext__(self) -> Delivery[T]:
        """The next delivery. With `ack="success"` this settles the one before."""
        if self._in_hand is not None and self._ack == "success":
            self._in_hand.finish()
        self._in_hand = None
        while not self._closed:
            delivery = await self._ready.get()
            if delivery is not None and not delivery.over.done():  # else its lease was lost meanwhile
                return self._taken(delivery)
        self._ready.put_nowait(None)  # several loops may wait
        raise StopAsyncIteration

    def _taken(self, delivery: PulledDelivery[T]) -> Delivery[T]:
        self._in_hand = delivery
        if self._ack == "receipt":
            delivery.finish_on_receipt()
        return delivery

    async def hand_over(self, delivery: Delivery[Any]) -> None:
        """The handler of the worker: passes a delivery on, and ends when it is settled."""
        pulled: PulledDelivery[T] = PulledDelivery.of(delivery)
        self._ready.put_nowait(pulled)
        await pulled.over

    def close(self) -> None:
        """Give no more deliveries."""
        self._closed = True
        self._ready.put_nowait(None)


class PulledDelivery(Delivery[T]):
    """A delivery that ends the handler which has passed it on, once it is settled."""

    __slots__ = ("over",)
    over: asyncio.Future[None]

    @classmethod
    def of(cls, delivery: Delivery[T]) -> PulledDelivery[T]:
        pulled = cls(delivery.event, delivery._run, delivery._acks)
        pulled.over = asyncio.get_running_loop().create_future()
        return pulled

    def finish(self) -> None:
        """Let the handler end: this settles the event, unless it is settled."""
        if not self.over.done():
            self.over.set_result(None)

    def finish_on_receipt(self) -> None:
        self._run.settled = True
        self.finish()

    async def _settle(self, error: Exception | None) -> None:
        try:
            await super()._settle(error)
        finally:
            if self.settled:
                self._acks.loop.call_soon_threadsafe(self.finish)
