"""The other names of keys that were set aside, and the end records and unique keys of streams."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from typing import Final

from headrace.stores.redis.client.cluster_slots import slot_of
from headrace.stores.redis.client.connection import Word, pack
from headrace.stores.redis.keys import QueueKeys
from headrace.stores.redis.scripts import Script
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

#: Behind a key that was set aside.
ASIDE: Final = b"/aside"

#: Keys that one SCAN looks at, roughly.
SCAN: Final = 1000

_OF_MESSAGE: Final = re.compile(rb"(\{[^}]*\}:(?:g:[^/]+/)?)([ru]:).*", re.DOTALL)


def aside(key: bytes) -> bytes:
    return key + ASIDE


def call_with(script: Script, queue: StreamScripts, keys: list[bytes], *args: Word) -> ScriptCall:
    """A call of a script that names its own keys, all of one stream."""
    return ScriptCall(script, pack((b"EVALSHA", script.digest, len(keys), *keys, *args)), queue.slot)


def call_at(script: Script, key: str, *args: Word) -> ScriptCall:
    """A call of a script about one key of the namespace."""
    return ScriptCall(script, pack((b"EVALSHA", script.digest, 1, key, *args)), slot_of(key.encode()))


class MessageKeys:
    """The keys of end records and unique keys, which only SCAN finds. They are looked for once."""

    def __init__(self, store: RedisServer) -> None:
        self._store = store
        self._found: dict[bytes, list[bytes]] | None = None

    async def of(self, prefix: bytes, after: bytes = b"", limit: int | None = None) -> list[bytes]:
        """The keys with this prefix, sorted, after one of them."""
        if self._found is None:
            self._found = await self._find()
        keys = self._found.get(prefix, [])
        first = bisect_right(keys, after)
        return keys[first:] if limit is None else keys[first : first + limit]

    async def _find(self) -> dict[bytes, list[bytes]]:
        found: defaultdict[bytes, set[bytes]] = defaultdict(set)
        namespace = re.sub(r"([\[\]?*\\])", r"\\\1", self._store.namespace)
        for link in await self._store.servers():
            cursor = b"0"
            while True:
                scan = pack(("SCAN", cursor, "MATCH", f"{{{namespace}:*", "COUNT", SCAN))
                [reply] = await link.ask(scan)
                self._store.check([reply], link)
                cursor, keys = reply
                for key in keys:
                    if of_message := _OF_MESSAGE.fullmatch(key):
                        found[of_message[1] + of_message[2]].add(key)
                if cursor == b"0":
                    break
        return {prefix: sorted(keys) for prefix, keys in found.items()}


def unique_prefix(keys: QueueKeys) -> bytes:
    return keys.end_record_prefix.removesuffix(b"r:") + b"u:"
