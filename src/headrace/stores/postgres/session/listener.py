"""Hears the notifications of all processes over its own connection, and connects again when that breaks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

import psycopg

from headrace.core.messages.ids import new_id
from headrace.core.records.control import MissedNotice
from headrace.stores.sql.wake_ups import WakeUps

from . import notifications
from .connection import PostgresConnection
from .notifications import Notification
from .pool import Pool
from .waiters import LISTENING, POLLING, WaitingCallers

logger = logging.getLogger("headrace")

#: Seconds until a notification to itself must arrive. If it does not, a pooler is in between.
PROBE_TIMEOUT: Final = 2.0

#: Seconds until it must arrive when the server itself answered the login: the server may only be busy.
DIRECT_PROBE_TIMEOUT: Final = 15.0

#: Seconds after which a quiet connection is tried.
QUIET: Final = 20.0

#: Seconds between two attempts to connect: the first, and the most.
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 5.0

#: Seconds between two notices that control messages may have been missed, while none can arrive.
MISSED_EVERY: Final = 5.0


class NotificationListener:
    def __init__(
        self,
        pool: Pool,
        waiters: WaitingCallers,
        *,
        channel: str,
        sender: str,
        presence: str,
        description: str,
    ) -> None:
        self._pool = pool
        self._waiters = waiters
        self._channel = channel
        self._sender = sender
        self._presence = presence
        self._description = description
        self._connection: PostgresConnection | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, and find out whether notifications arrive. Raises the error of the first connection."""
        connection = await self._connect()
        if not await self._hears_itself(connection):
            await self.stop()
            self._pool.pooled = True
            await self._pool.clear()
            logger.warning(
                "%s: notifications do not arrive; a pooler in transaction mode is in between. headrace polls"
                " every %s seconds instead, and prepares no statements. For faster pick-up give it a direct"
                " connection",
                self._description,
                POLLING,
            )
            self._task = asyncio.create_task(self._keep_polling(), name="headrace: polling")
            return
        self._pool.pooled = False
        if connection.pooled:
            await self._pool.clear()  # it keeps sessions after all, so new connections make their settings
        await self._show_presence(connection)
        self._waiters.interval = LISTENING
        self._task = asyncio.create_task(self._keep_hearing(), name="headrace: notifications")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def drop(self) -> None:
        """End without an event loop."""
        if self._connection is not None:
            self._connection.drop()

    async def _connect(self) -> PostgresConnection:
        self._connection = connection = await self._pool.open_one()
        with self._pool.watch(connection):
            await connection.change(f'LISTEN "{self._channel}"')
        return connection

    async def _hears_itself(self, connection: PostgresConnection) -> bool:
        probe = notifications.text_of(Notification(self._sender, probe=new_id()))
        async with self._pool.connection() as other:
            await other.rows("SELECT pg_notify($1, $2)", (self._channel, probe))
        until = monotonic() + (PROBE_TIMEOUT if connection.pooled else DIRECT_PROBE_TIMEOUT)
        while (left := until - monotonic()) > 0:
            async for notify in connection.raw.notifies(timeout=left, stop_after=1):
                if notify.payload == probe:
                    return True
        return False

    async def _show_presence(self, connection: PostgresConnection) -> None:
        """While this process is connected, nothing is removed from the tables that its version needs."""
        with self._pool.watch(connection):
            await connection.rows(f"SELECT pg_advisory_lock_shared({self._presence})")  # nosec B608 # a checked name

    async def _keep_polling(self) -> None:
        while True:
            await asyncio.sleep(MISSED_EVERY)
            self._waiters.announce(MissedNotice())

    async def _keep_hearing(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                if self._connection is None:
                    await self._show_presence(await self._connect())
                    self._catch_up()
                pause = FIRST_PAUSE
                await self._hear(self._connection)
            except (psycopg.Error, OSError):
                broken, self._connection = self._connection, None
                if broken is not None:
                    await broken.close()
                await self._pool.clear()  # the others are likely to be broken too
                self._waiters.interval = POLLING
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # nosec B311 # jitter
                pause = min(2 * pause, LONGEST_PAUSE)

    def _catch_up(self) -> None:
        """After a gap, all callers look, because they may have missed something."""
        self._waiters.interval = LISTENING
        self._waiters.wake_all()
        self._waiters.announce(MissedNotice())

    async def _hear(self, connection: PostgresConnection | None) -> None:
        assert connection is not None
        while True:
            async for notify in connection.raw.notifies(timeout=QUIET):
                self._take(notify.payload)
            with self._pool.watch(connection):
                await connection.rows("SELECT 1")

    def _take(self, payload: str) -> None:
        notification = notifications.read(payload)
        if notification is None:
            return
        if notification.probe:
            return
        if notification.everything:
            self._waiters.wake_all()
        elif notification.sender != self._sender:
            self._waiters.notify(notifications.wake_ups_of(notification))
        for words in notification.notices:
            notice = notifications.read_notice(*words) if words else None
            if notice is not None:
                self._waiters.announce(notice)


class Notifier:
    """Sends the wake-ups of committed steps to other processes: what gathered while the last notification was
    under way forms the next. So a notification never delays a commit, and a batch costs one at most."""

    def __init__(self, send: Callable[[str], Awaitable[None]], *, sender: str) -> None:
        self._send = send
        self._sender = sender
        self._wake_ups = WakeUps()
        self._task: asyncio.Task[None] | None = None

    def notify(self, more: WakeUps) -> None:
        self._wake_ups.add(more)
        if self._task is None:
            self._task = asyncio.create_task(self._send_all(), name="headrace: notify")

    async def flush(self) -> None:
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _send_all(self) -> None:
        try:
            while self._wake_ups:
                sent, self._wake_ups = self._wake_ups, WakeUps()
                await self._send(notifications.text_of(notifications.notification_of(self._sender, sent)))
        except (psycopg.Error, OSError):
            pass  # the callers look by themselves after a while
        finally:
            self._task = None
