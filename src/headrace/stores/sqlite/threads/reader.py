"""The thread that reads on its own connection, and watches for changes by other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty
from typing import Any, Final

import apsw

from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.faults import FAILURES

from .change_notice import ChangeNotice
from .step import ReadStep
from .store_thread import StoreThread
from .waiters import Waiters

#: Seconds between two looks at the file while a caller waits, and after a look that failed.
LOOK_EVERY: Final = 0.025
LOOK_AGAIN: Final = 1.0


class ReaderThread(StoreThread[ReadStep[Any]]):
    def __init__(
        self, connection: Connection, notify: Callable[[ChangeNotice], None], *, waiters: Waiters
    ) -> None:
        super().__init__("reader", connection, notify)
        self._waiters = waiters
        self._look_at = 0.0

    def look_now(self) -> None:
        """Look at the file at once."""
        self._queue.put(True)

    def _work(self) -> None:
        going = True
        while going:
            reads, going = self._gather()
            if reads:
                with self._connection.in_use:
                    answers = [(read, self._answer(read)) for read in reads]
                self._deliver(answers, ChangeNotice())
            if going and self._waiters.active and time.monotonic() >= self._look_at:
                with self._connection.in_use:
                    self._look()

    def _gather(self) -> tuple[list[ReadStep[Any]], bool]:
        """Wait for reads, or until it is time to look. False: there will be no more reads."""
        reads: list[ReadStep[Any]] = []
        try:
            item = self._queue.get(timeout=self._pause())
            while item is not None:
                if isinstance(item, ReadStep):
                    reads.append(item)
                else:
                    self._look_at = 0.0
                item = self._queue.get_nowait()
        except Empty:
            return reads, True
        return reads, False

    def _pause(self) -> float | None:
        return max(0.0, self._look_at - time.monotonic()) if self._waiters.active else None

    def _answer(self, read: ReadStep[Any]) -> Any:
        try:
            self._connection.open()
            return read.run(self._connection)
        except FAILURES as error:
            return self._connection.failed(error)
        except Exception as error:
            return error

    def _look(self) -> None:
        try:
            self._connection.open()
            changes = self._waiters.find_changes(self._connection)
        except Exception as error:
            # No caller can receive this error, and this thread must go on. Waiting callers ask again.
            if isinstance(error, apsw.Error):
                self._connection.failed(error)
            self._look_at = time.monotonic() + LOOK_AGAIN
        else:
            self._look_at = time.monotonic() + LOOK_EVERY
            if changes:
                self._deliver([], changes)
