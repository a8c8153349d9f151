"""Receives over one subscription what other processes announce: control messages, and ends of messages that
callers wait for."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from headrace.core.encoding.decoding import text_of
from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlMessage, MissedNotice
from headrace.core.records.record import JobStatus, Record
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.connection import RECONNECT_MOST, Wire, pack
from headrace.stores.redis.entries import record_of
from headrace.stores.redis.keys import stream_of
from headrace.stores.redis.scripts import STOP_WAITING, WAIT_FOR_END
from headrace.stores.redis.server.faults import error_of
from headrace.stores.redis.server.server import RedisServer

#: Seconds for which the server remembers a waiting process, and after which the process registers again.
REMEMBERED, REMINDED = 60.0, 20.0

#: Seconds between two PINGs on the subscription. Without them a quiet connection looks like a dead one.
PULSE = 4.0

#: Seconds within which an announcement of another cluster node must arrive at our node.
HEARING = 1.0

Hear = Callable[[ControlMessage], None]


class Announcements:
    """A task keeps the connection up, from `open` to `close`. Announcements are missed while it is down, so
    callers that wait for an end ask again as soon as it is back."""

    def __init__(
        self,
        store: RedisServer,
        use_lanes: Callable[[Stream, str], None],
        ready: Callable[[Stream, str], None],
    ) -> None:
        self._store = store
        self._use_lanes = use_lanes
        self._ready = ready
        self._link = store.new_link(greet=self._subscribe, hear=self._receive)
        self._channel = store.keys.waiter(secrets.token_hex(8))
        self._task: asyncio.Task[None] | None = None
        self._listeners: list[Hear] = []
        self._waiting: dict[tuple[Stream, str], set[asyncio.Event]] = {}
        self._pulse = asyncio.Event()
        self._closed = False

    async def open(self) -> None:
        self._closed = False
        await self._link.connected()
        self._task = asyncio.create_task(self._keep_up())

    async def close(self) -> None:
        """Close the connection. Callers that wait for an end get an error: the store is closed."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._link.drop()
        self._ask_again()

    def abandon(self) -> None:
        """Forget the connection when its event loop is gone, or belongs to the parent process: then no caller
        waits."""
        self._closed = True
        self._task = None
        self._waiting.clear()

    # --- control messages --------------------------------------------------------------------------------

    def listen(self, hear: Hear) -> Callable[[], None]:
        # A listener may be added twice, and is then called twice.
        listening = True

        def hear_while_listening(notice: ControlMessage) -> None:
            if listening:
                hear(notice)

        def stop() -> None:
            nonlocal listening
            listening = False
            if hear_while_listening in self._listeners:
                self._listeners.remove(hear_while_listening)

        self._listeners.append(hear_while_listening)
        return stop

    def _receive(self, message: Any) -> None:
        _, channel, payload = message
        words = text_of(payload).split(" ")
        if text_of(channel) == self._channel:
            if len(words) == 1:
                self._pulse.set()
            else:
                self._end(stream_of(words[0]), words[1])
            return
        match words:
            case ["ready", label, name, _]:  # the last word: when the name was left
                asyncio.get_running_loop().call_soon(self._ready, stream_of(label), name)
            case ["lane", label, lanes]:
                asyncio.get_running_loop().call_soon(self._use_lanes, stream_of(label), lanes)
            case [_, _, *_] if notice := _notice(*words):
                self._notify(notice)

    def _notify(self, notice: ControlMessage) -> None:
        loop = asyncio.get_running_loop()
        for hear in self._listeners:
            loop.call_soon(hear, notice)  # an error in a listener must not end the connection

    # --- ends --------------------------------------------------------------------------------------------

    async def wait_for_end(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        self._store.life.check(self._store.server_name)
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        event = asyncio.Event()
        waiting = self._waiting.setdefault((stream, id), set())
        waiting.add(event)
        try:
            while True:
                event.clear()
                record = await self._watch(stream, id)
                if record is not None:
                    return record
                if not await _heard(event, until):
                    await self._unwatch(stream, id, waiting)
                    return None
        finally:
            waiting.discard(event)
            if not waiting:
                self._waiting.pop((stream, id), None)

    async def _watch(self, stream: Stream, id: str) -> Record | None:
        """The record of a message that has ended; None: the end will be announced to this process."""
        if self._closed:
            raise BackendUnavailable("the store was closed while a caller waited for the end of a message")
        # Subscribe before registering. Otherwise the process might miss the announcement that it asks for.
        await self._link.connected()
        queue = self._store.queue(stream)
        rows = await self._store.run(queue.call(WAIT_FOR_END, id, self._channel, round(REMEMBERED * 1000)))
        if rows is None:
            return None
        return record_of(stream, rows[0]) if rows else Record(stream, id, JobStatus.UNKNOWN)

    async def _unwatch(self, stream: Stream, id: str, waiting: set[asyncio.Event]) -> None:
        if len(waiting) == 1:
            with suppress(BackendUnavailable):  # the server forgets the registration by itself
                await self._store.run(self._store.queue(stream).call(STOP_WAITING, id, self._channel))

    def _end(self, stream: Stream, id: str) -> None:
        for event in self._waiting.get((stream, id), ()):
            event.set()

    def _ask_again(self) -> None:
        for events in self._waiting.values():
            for event in events:
                event.set()

    # --- the connection ----------------------------------------------------------------------------------

    async def _subscribe(self, wire: Wire) -> None:
        channels = (self._store.keys.notices, self._channel)
        for reply in await wire.send(b"".join(pack(("SUBSCRIBE", name)) for name in channels), len(channels)):
            if isinstance(reply, ReplyError):
                raise error_of(reply, self._store.server_name)

    async def _keep_up(self) -> None:
        mine, first = asyncio.current_task(), self._link.wire
        while self._task is mine:
            try:
                wire = await self._link.connected()
                self._ask_again()
                if wire is not first:
                    self._notify(MissedNotice())
                while not await wire.ended(PULSE):
                    await wire.send(pack(("PING",)))
                    await self._listen_to_another(wire)
            except HeadraceError:
                await asyncio.sleep(random.uniform(0, RECONNECT_MOST))  # nosec B311 # jitter

    async def _listen_to_another(self, wire: Wire) -> None:
        """Leave a cluster node that is cut off: it still answers, but announcements of the other nodes do not
        arrive there. Or the other node is cut off, and another node has taken its place by now."""
        self._pulse.clear()
        if not await self._store.announce_elsewhere(wire, self._channel):
            return
        try:
            async with asyncio.timeout(HEARING):
                await self._pulse.wait()
        except TimeoutError:
            if not self._pulse.is_set():  # it did not come while this process was busy either
                self._store.doubt()
                self._link.drop()


async def _heard(event: asyncio.Event, until: float | None) -> bool:
    """Whether to ask again: an announcement came, or it is time to register again. False: time is up."""
    loop = asyncio.get_running_loop()
    reminder = loop.time() + REMINDED
    try:
        async with asyncio.timeout_at(reminder if until is None else min(until, reminder)):
            await event.wait()
    except TimeoutError:
        return until is None or loop.time() < until
    return True


def _notice(what: str, label: str, *details: str) -> ControlMessage | None:
    """The control message in an announcement of the scripts; None: it is of a later version."""
    stream = stream_of(label)
    words = [what, [stream.kind, stream.name], *details]
    try:
        notice: ControlMessage = msgspec.convert(words, ControlMessage, strict=False)
    except msgspec.ValidationError:
        return None
    return notice
