"""Verbs on their way to a thread and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from headrace.stores.sqlite.connection.connection import Connection

from .transaction import Transaction

T = TypeVar("T")


class PendingStep(Generic[T]):
    """Somebody on the event loop waits for an answer from a thread."""

    def __init__(self) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def settle(self, answer: T | Exception) -> None:
        """On the event loop: pass the answer on, unless whoever asked has gone."""
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class ReadStep(PendingStep[T]):
    """One question to the file."""

    def __init__(self, run: Callable[[Connection], T]) -> None:
        super().__init__()
        self.run = run


class NothingToWrite(Generic[T]):
    """The answer of a verb that found, without the write lock, that there is nothing to write."""

    def __init__(self, value: T) -> None:
        self.value = value


class WriteStep(PendingStep[T]):
    """`run` does it, in a transaction that it may share with others. `shortcut` may answer it before.

    `durable`: its commit must survive a power failure. What only concerns the workers of this machine need
    not, since they would not survive it either; it is then spared the wait for the disk. `urgent`: somebody
    waits for it, and more than for what workers do among themselves.

    `size`: bytes that it adds for good; it is refused on a disk that is nearly full, where others are not.
    """

    def __init__(
        self,
        run: Callable[[Transaction], T],
        *,
        shortcut: Callable[[Connection], NothingToWrite[T] | None] | None = None,
        durable: bool = True,
        urgent: bool = True,
        weight: int = 1,
        size: int = 0,
    ) -> None:
        super().__init__()
        self.run = run
        self.shortcut = shortcut
        self.durable = durable
        self.urgent = urgent and durable
        self.weight = weight
        self.size = size
