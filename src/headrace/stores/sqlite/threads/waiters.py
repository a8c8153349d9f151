"""Keeps the waiting callers of this process, and wakes them.

Changes by this process wake them at once. Changes by other processes show as a changed `data_version` of the
file. The reader's thread checks it when another process has signalled a commit (commit_signals.py), and forty
times a second while a caller waits. A check costs a few microseconds; the thread reads more only after a
change. So a waiting worker writes nothing, and locks nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeVar

from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlMessage
from headrace.core.runtime.clock import TimeSource
from headrace.stores.sql.waiters import EventWaiter, EventWaiters, topics_of
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import upkeep_statements
from headrace.stores.sqlite.topics.log import is_behind
from headrace.stores.sqlite.verbs.claim import is_something_ready
from headrace.stores.sqlite.verbs.control import StoredNotice, read_notices
from headrace.stores.sqlite.verbs.looking import which_are_over

from .change_notice import ChangeNotice

#: Seconds for which a new listener does not get control messages from before its start. After that time the
#: reader has passed all of these.
NEWCOMER: Final = 1.0


class EndWaiter(EventWaiter):
    """Has the reader look as soon as its caller waits: the reader may be asleep until then."""

    def __init__(
        self, look_now: Callable[[], None], woken_by: frozenset[Stream] = frozenset(), consumer: str = ""
    ) -> None:
        super().__init__(woken_by, consumer)
        self._look_now = look_now

    async def wait(self, timeout: float | None) -> bool:
        self._look_now()
        return await super().wait(timeout)


class ClaimWaiter(EndWaiter):
    """Wakes a claim that waits for a message in its streams."""

    def __init__(
        self,
        look_now: Callable[[], None],
        streams: Sequence[Stream],
        consumer: str,
        *,
        suspects: bool,
        children: bool,
        constrained: bool,
    ) -> None:
        super().__init__(look_now, frozenset(streams) | topics_of(streams), consumer)
        self.streams = streams
        self.suspects = suspects
        self.children = children
        self.constrained = constrained

    def is_due(self, connection: Connection, namespace: str) -> bool:
        return is_something_ready(
            connection,
            namespace,
            self.streams,
            suspects=self.suspects,
            children=self.children,
            constrained=self.constrained,
        )


class ReadWaiter(EndWaiter):
    """Wakes a reader that waits for an event after its position in a log."""

    def __init__(self, look_now: Callable[[], None], topic: Stream, consumer: str) -> None:
        super().__init__(look_now, frozenset((topic,)), consumer)
        self.topic = topic
        self.position = 0

    def is_due(self, connection: Connection, namespace: str) -> bool:
        return is_behind(connection, namespace, self.topic, self.position)


W = TypeVar("W", ClaimWaiter, ReadWaiter)


class ControlListener:
    """Calls a function with every control message that is announced after the listener's start."""

    def __init__(self, hear: Callable[[ControlMessage], None], now_us: int) -> None:
        self._hear = hear
        self._since_us = now_us
        self._came_at = asyncio.get_running_loop().time()

    def notify(self, announcement: StoredNotice) -> None:
        new = asyncio.get_running_loop().time() - self._came_at < NEWCOMER
        if not new or announcement.at_us >= self._since_us:
            self._hear(announcement.notice)


class Waiters(EventWaiters[ClaimWaiter | ReadWaiter, EndWaiter]):
    """The methods below the line run in the reader's thread, the others on the event loop."""

    def __init__(self, *, namespace: str, clock: TimeSource, look_now: Callable[[], None]) -> None:
        super().__init__()
        self._namespace = namespace
        self._clock = clock
        self._look_now = look_now
        self._listeners: list[ControlListener] = []
        self._newcomer = False
        self._version: tuple[int, int] | None = None
        self._position: tuple[int, int] | None = None

    @property
    def active(self) -> bool:
        return bool(self._claims or self._endings or self._listeners)

    def is_anything_awaited(self) -> bool:
        """Whether a caller waits for a message, or for the end of one."""
        return bool(self._claims or self._endings)

    def is_an_end_awaited(self) -> bool:
        """Whether a caller waits for the end of a message."""
        return bool(self._endings)

    def claiming(
        self, streams: Sequence[Stream], consumer: str, *, suspects: bool, children: bool, constrained: bool
    ) -> AbstractContextManager[ClaimWaiter]:
        return self._waiting(
            ClaimWaiter(
                self._look_now,
                streams,
                consumer,
                suspects=suspects,
                children=children,
                constrained=constrained,
            )
        )

    def reading(self, topic: Stream, consumer: str) -> AbstractContextManager[ReadWaiter]:
        return self._waiting(ReadWaiter(self._look_now, topic, consumer))

    @contextmanager
    def _waiting(self, waiter: W) -> Iterator[W]:
        with self._claim_waits(waiter):
            yield waiter

    def ending(self, stream: Stream, id: str) -> AbstractContextManager[EndWaiter]:
        return self._end_awaited(stream, id, EndWaiter(self._look_now))

    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        listener = ControlListener(hear, self._clock.now_us())
        self._listeners.append(listener)
        self._newcomer = True
        self._look_now()

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def notify(self, changes: ChangeNotice) -> None:
        self._wake(changes.ready, changes.ended)
        for announcement in changes.notices:
            for listener in tuple(self._listeners):
                listener.notify(announcement)
        if changes.announced and self._listeners:
            self._look_now()

    # --- in the reader's thread --------------------------------------------------------------------------

    def find_changes(self, connection: Connection) -> ChangeNotice:
        """The changes by other processes since the last look that a caller here waits for."""
        # A new listener must catch up soon: a control message that reaches it much later counts as new.
        newcomer, self._newcomer = self._newcomer, False
        version = connection.opened, connection.value("PRAGMA data_version")
        if version == self._version and not newcomer:
            return ChangeNotice()
        # Read after the version, or a waiter that arrives in between would be missed. Each is copied in one
        # step, because the event loop goes on changing them.
        claims, endings, listening = list(self._claims), list(self._endings), bool(self._listeners)
        changes = ChangeNotice()
        for waiter in claims:
            if waiter.is_due(connection, self._namespace):
                changes.ready |= waiter.woken_by
        if endings:
            changes.ended = which_are_over(connection, self._namespace, endings)
        if listening:
            changes.notices = self._new_notices(connection)
        self._version = version
        return changes

    def start_from_here(self, connection: Connection) -> None:
        """Skip the control messages that were announced before this."""
        self._position = connection.opened, connection.value(upkeep_statements.LAST_NOTICE)

    def _new_notices(self, connection: Connection) -> list[StoredNotice]:
        if self._position is None or self._position[0] != connection.opened:
            self.start_from_here(connection)  # another file has other numbers
            return []
        notices = read_notices(connection, self._namespace, self._position[1])
        if notices:
            self._position = connection.opened, notices[-1].seq
        return notices
