"""A thread with its own connection: takes steps from a queue, and answers to the event loop."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from headrace.stores.sqlite.connection.connection import Connection

from .change_notice import ChangeNotice
from .step import PendingStep

StepT = TypeVar("StepT", bound=PendingStep[Any])

#: Steps and their answers. An answer that is an exception is raised in the caller.
Answers = list[tuple[StepT, Any]]


class StoreThread(ABC, Generic[StepT]):
    """Created and stopped on the event loop. `None` in the queue ends the thread; `True` only wakes it."""

    def __init__(self, name: str, connection: Connection, notify: Callable[[ChangeNotice], None]) -> None:
        self._connection = connection
        self._notify = notify
        self._queue: SimpleQueue[StepT | bool | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._unanswered = 0  # submitted steps without an answer
        self._thread = threading.Thread(target=self._run, name=f"headrace sqlite {name}", daemon=True)
        self.start = self._thread.start

    def submit(self, item: StepT) -> None:
        self._unanswered += 1
        self._queue.put(item)

    def stop(self) -> None:
        """End the thread once all submitted steps are done."""
        self._queue.put(None)

    async def stopped(self) -> None:
        """Wait for the end of the thread without blocking the event loop."""
        await self._ended.wait()
        self._thread.join()

    @abstractmethod
    def _work(self) -> None:
        """Process steps until `None` comes from the queue."""

    def _run(self) -> None:
        try:
            self._work()
        finally:
            with self._connection.in_use:
                self._connection.close()
            self._post(self._ended.set)

    def _deliver(self, answers: Answers[StepT], changes: ChangeNotice) -> None:
        """Hand over all answers in one call to the event loop."""
        self._post(self._hand_over, answers, changes)

    def _hand_over(self, answers: Answers[StepT], changes: ChangeNotice) -> None:
        self._unanswered -= len(answers)
        for pending, answer in answers:
            pending.settle(answer)
        if changes:
            self._notify(changes)

    def _post(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            self._queue.put(None)  # The loop is closed: no caller is left to answer.
