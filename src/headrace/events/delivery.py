"""An event in the hands of one group: the handler that takes it settles it, at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from headrace.core.directives import RetryLater, Unrecoverable
from headrace.core.duration import Duration
from headrace.core.errors import ConfigurationError
from headrace.engine.desk import Desk
from headrace.engine.run import Run

from .event import Event

T = TypeVar("T")


class Delivery(Generic[T]):
    """What a handler of `Delivery[OrderPlaced]` gets. With `ack="manual"` it must settle it by `ack()`,
    `reject()` or `retry()`; with `ack="success"` it may, and what it does not settle is settled by its end.

    Each of the three waits until the store has written it. A second one raises `AlreadySettled`.
    """

    __slots__ = ("_desk", "_run", "event")

    def __init__(self, event: Event[T], run: Run, desk: Desk) -> None:
        self.event: Event[T] = event
        self._run = run
        self._desk = desk

    def __repr__(self) -> str:
        return f"<Delivery of {self.event.id} from {self.event.topic}, attempt {self.attempt}>"

    @property
    def payload(self) -> T:
        return self.event.payload

    @property
    def attempt(self) -> int:
        """1 for the first time, one more after each failure and each crash."""
        return self._run.attempt

    @property
    def redelivered(self) -> bool:
        """Whether an earlier handling was cut off, by a crash or a shutdown, and may have done a part."""
        return self._run.redelivered

    @property
    def group(self) -> str | None:
        """The group that handles it; None for a fan-out."""
        return self._run.group

    @property
    def settled(self) -> bool:
        return self._run.settled

    async def ack(self) -> None:
        """The event is done with, for this group."""
        await self._settle(None)

    async def reject(self, why: str) -> None:
        """The event goes to the group's dead letters."""
        await self._settle(Unrecoverable(why))

    async def retry(self, delay: Duration = 0) -> None:
        """The event comes again after `delay` seconds; this counts as a failure."""
        await self._settle(RetryLater(delay))

    def ack_sync(self) -> None:
        """`ack()` for plain functions."""
        self._wait(self.ack())

    def reject_sync(self, why: str) -> None:
        """`reject()` for plain functions."""
        self._wait(self.reject(why))

    def retry_sync(self, delay: Duration = 0) -> None:
        """`retry()` for plain functions."""
        self._wait(self.retry(delay))

    async def _settle(self, error: Exception | None) -> None:
        settling = self._desk.settle(self._run, error)
        if asyncio.get_running_loop() is self._desk.loop:
            await settling
        else:  # a plain function may have a loop of its own
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(settling, self._desk.loop))

    def _wait(self, settling: Coroutine[Any, Any, None]) -> None:
        if asyncio._get_running_loop() is self._desk.loop:
            settling.close()
            raise ConfigurationError("on the event loop, await ack(), reject() or retry() instead")
        asyncio.run_coroutine_threadsafe(settling, self._desk.loop).result()
