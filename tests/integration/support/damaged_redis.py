"""A store on a server whose keys a test damages."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec

from tests.integration.support.damaged_store import PASSED, fill
from tests.support.redis_leases import age_leases
from tests.support.routers import open_router
from tests.support.servers import HOST, Server, ask

#: A database of the server that no other test uses.
DATABASE = 9


class Spot(msgspec.Struct, frozen=True):
    """A key, or a part of it: a field of a hash, a member of a set, a field of an entry of a stream.

    `structural`: it belongs to the queue or the topic, not to a message in it."""

    kind: str
    key: bytes
    part: bytes = b""
    field: bytes = b""
    structural: bool = False


class RedisStore:
    """A database of a server, filled anew for each example."""

    def __init__(self, server: Server) -> None:
        self.url = f"redis://{HOST}:{server.port}/{DATABASE}"
        self._socket = socket.create_connection((HOST, server.port))
        self.ask("SELECT", DATABASE)
        self._content: list[tuple[bytes, bytes, int]] = []

    def close(self) -> None:
        self.ask("FLUSHDB")
        self._socket.close()

    def ask(self, *words: bytes | str | int) -> Any:
        return ask(self._socket, *words)

    async def make(self) -> None:
        self.ask("FLUSHDB")
        backend = open_router(self.url)
        await backend.open()
        await fill(backend)
        await asyncio.to_thread(age_leases, self.url, PASSED)
        await backend.close()
        self._content = [(key, self.ask("DUMP", key), self.ask("PTTL", key)) for key in self.ask("KEYS", "*")]

    def spots(self) -> list[Spot]:
        self.renew()  # the workers of a test before have changed it
        return [spot for key, _, _ in self._content if b":other}" not in key for spot in self._spots(key)]

    def _spots(self, key: bytes) -> list[Spot]:
        kind = self.ask("TYPE", key).decode()
        structural = key.endswith((b":meta", b"/meta", b":groups", b":streams", b":tags", b":format"))
        # A key of a message is one thing, a key of all of them another.
        parts = [Spot("key", key, structural=not any(mark in key for mark in (b"}:r:", b"}:u:", b"}:p:")))]
        match kind:
            case "hash":
                parts += [
                    Spot("hash", key, field, structural=structural) for field in self._words(kind, key)[::2]
                ]
            case "zset":
                parts += [
                    Spot(what, key, member) for member in self._words(kind, key) for what in ("zset", "score")
                ]
            case "set":
                parts.append(Spot("set", key, structural=structural))
            case "stream":
                for entry, fields in self.ask("XRANGE", key, "-", "+"):
                    if not any(b"healthy" in field for field in fields):
                        parts += [Spot("stream", key, entry, field) for field in fields[::2]]
                parts.append(Spot("entry", key, structural=key.endswith(b":log")))
        return [part for part in parts if b"healthy" not in part.part]

    def derived(self) -> list[bytes]:
        """The keys that are made anew from others: of lines, of order keys and of what limits count."""
        names = (b"line", b"open/", b"blocked", b"keys", b"parked", b"s:held")
        keys = [key for key, _, _ in self._content]
        behind = {key: key.split(b"}:", 1)[-1] for key in keys if b":q:" in key or b":limits}" in key}
        return [
            key
            for key, name in behind.items()
            if b":limits}" in key or name.startswith(names) or name.endswith(b"/open")
        ]

    def _words(self, kind: str, key: bytes) -> list[bytes]:
        match kind:
            case "hash":
                found: list[bytes] = self.ask("HGETALL", key)
            case "zset":
                found = self.ask("ZRANGE", key, 0, -1)
            case "set":
                found = self.ask("SMEMBERS", key)
            case _:
                found = []
        return found

    def renew(self) -> None:
        """The store as it was first."""
        self.ask("FLUSHDB")
        for key, content, ttl in self._content:
            self.ask("RESTORE", key, max(0, ttl), content)

    def damage(self, spot: Spot, value: bytes) -> None:
        self.renew()
        key = spot.key
        match spot.kind:
            case "key":
                self.ask("DEL", key)
                self.ask(*(("LPUSH", key, value) if len(value) % 2 else ("SET", key, value)))
            case "hash":
                self.ask("HSET", key, spot.part, value)
            case "zset":
                score = self.ask("ZSCORE", key, spot.part)
                self.ask("ZREM", key, spot.part)
                self.ask("ZADD", key, score, value)
            case "score":
                self.ask("ZADD", key, ("inf", "-inf", "-1", "1e300")[len(value) % 4], spot.part)
            case "set":
                self.ask("SADD", key, value, b"group:" + value, b"topic:" + value)
            case "entry":
                self.ask("XADD", key, "*", value, value)
                self.ask("XADD", key, "*", "i", value, "t", value, "m", value, "s", value)
            case "stream":
                self._rewrite(key, spot, value)

    def _rewrite(self, key: bytes, spot: Spot, value: bytes) -> None:
        """Make the stream anew with another value in one entry: entries cannot be changed."""
        groups = [dict(zip(row[::2], row[1::2], strict=True)) for row in self.ask("XINFO", "GROUPS", key)]
        held = [row for group in groups for row in self.ask("XPENDING", key, group[b"name"], "-", "+", 100)]
        rows = self.ask("XRANGE", key, "-", "+")
        self.ask("DEL", key)
        for entry, fields in rows:
            if entry == spot.part:
                at = fields.index(spot.field) + 1
                fields = (
                    [*fields[:at], value, *fields[at + 1 :]]
                    if value
                    else [*fields[: at - 1], *fields[at + 1 :]]
                )
            if fields:
                self.ask("XADD", key, entry, *fields)
        for group in groups:
            self.ask("XGROUP", "CREATE", key, group[b"name"], group[b"last-delivered-id"])
            for entry, consumer, idle, _ in held:
                self.ask("XCLAIM", key, group[b"name"], consumer, 0, entry, "IDLE", idle, "FORCE", "JUSTID")
