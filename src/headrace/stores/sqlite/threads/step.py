"""The steps in which a verb goes to a thread and its answer comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from headrace.stores.sqlite.connection.connection import Connection

from .transaction import Transaction

T = TypeVar("T")


class PendingStep(Generic[T]):
    """A caller on the event loop waits for an answer from a thread."""

    def __init__(self) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def settle(self, answer: T | Exception) -> None:
        """Pass the answer on, unless the caller has gone. Runs on the event loop."""
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class ReadStep(PendingStep[T]):
    """A step that only reads the file."""

    def __init__(self, run: Callable[[Connection], T]) -> None:
        super().__init__()
        self.run = run


class NothingToWrite(Generic[T]):
    """The answer of a verb that has nothing to write. The verb found this without the write lock."""

    def __init__(self, value: T) -> None:
        self.value = value


class WriteStep(PendingStep[T]):
    """`run` does the work, in a transaction that steps may share. `shortcut` may answer without a write.

    `durable`: the commit must survive a power failure. Steps that only concern the workers of this machine
    need not, because these workers would not survive either; they skip the wait for the disk. `urgent`: a
    caller waits for the step, and it is more important than the steps of workers.

    `size`: bytes that the step adds permanently. A nearly full disk refuses steps with a size.
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
