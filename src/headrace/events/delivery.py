"""An event that is delivered to one group. Its handler settles it, at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.core.errors import ConfigurationError
from headrace.core.messages.directives import RetryLater, Unrecoverable
from headrace.core.values.durations import Duration
from headrace.engine.running.run import Run

from .event import Event

if TYPE_CHECKING:
    from headrace.engine.settling.manual_acks import ManualAcks

T = TypeVar("T")


class Delivery(Generic[T]):
    """What a handler that takes `Delivery[OrderPlaced]` gets.

    With `ack="manual"` the handler must settle the event with `ack()`, `reject()` or `retry()`. With
    `ack="success"` it may do so; otherwise the end of the handler settles the event. Each of the three
    methods waits until the store has written the outcome. A second call raises `AlreadySettled`.
    """

    __slots__ = ("_acks", "_run", "event")

    def __init__(self, event: Event[T], run: Run, acks: ManualAcks) -> None:
        self.event: Event[T] = event
        self._run = run
        self._acks = acks

    def __repr__(self) -> str:
        return f"<Delivery of {self.event.id} from {self.event.topic}, attempt {self.attempt}>"

    @property
    def payload(self) -> T:
        """The payload of the event."""
        return self.event.payload

    @property
    def attempt(self) -> int:
        """1 for the first time, one more after each failure and each crash."""
        return self._run.attempt

    @property
    def redelivered(self) -> bool:
        """Whether a crash or a shutdown interrupted an earlier run, which may have done a part of the
        work."""
        return self._run.redelivered

    @property
    def group(self) -> str | None:
        """The group that handles it; None for a fan-out."""
        return self._run.group

    @property
    def settled(self) -> bool:
        """Whether the event is settled."""
        return self._run.settled

    async def ack(self) -> None:
        """Settle the event: this group has handled it."""
        await self._settle(None)

    async def reject(self, why: str) -> None:
        """Settle the event: it goes to the dead letters of the group, with `why` as the reason."""
        await self._settle(Unrecoverable(why))

    async def retry(self, delay: Duration = 0, *, reason: str = "") -> None:
        """Settle the event: the group gets it again after `delay` seconds, 0 by default. This counts as a
        failure, and `reason` is its text; after the last retry it is the error of the dead letter."""
        await self._settle(RetryLater(delay, reason))

    def ack_sync(self) -> None:
        """`ack()` for plain functions."""
        self._wait(self.ack())

    def reject_sync(self, why: str) -> None:
        """`reject()` for plain functions."""
        self._wait(self.reject(why))

    def retry_sync(self, delay: Duration = 0, *, reason: str = "") -> None:
        """`retry()` for plain functions."""
        self._wait(self.retry(delay, reason=reason))

    async def _settle(self, error: Exception | None) -> None:
        settling = self._acks.settle(self._run, error)
        if asyncio.get_running_loop() is self._acks.loop:
            await settling
        else:  # a plain function may have a loop of its own
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(settling, self._acks.loop))

    def _wait(self, settling: Coroutine[Any, Any, None]) -> None:
        if asyncio._get_running_loop() is self._acks.loop:
            settling.close()
            raise ConfigurationError("on the event loop, await ack(), reject() or retry() instead")
        asyncio.run_coroutine_threadsafe(settling, self._acks.loop).result()
