"""What is left inside a server after draining: only its own record of queues and groups, however many
messages went through. A key that expires by itself does not count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .fleet import Server

#: The command that counts the elements of a key, by its type.
COUNTING: Final = {b"stream": "XLEN", b"hash": "HLEN", b"zset": "ZCARD", b"set": "SCARD", b"list": "LLEN"}

#: Elements that a key may have for each queue, group and worker. When something of each message is left, it
#: shows in the sum: rounds have thousands.
FEW: Final = 20


def residue(server: Server, *, events: int) -> list[str]:
    """What is too much, in words. `events` are those that the logs of topics keep."""
    entries = others = 0
    keys = list(lasting_keys(server))
    for key, kind in keys:
        number = server.command(COUNTING[kind], key) if kind in COUNTING else 1
        assert isinstance(number, int)
        if kind == b"stream":
            entries += number
        else:
            others += number
    found: list[str] = []
    if entries != events:
        found.append(f"{entries} entries in streams, where topics keep {events} events")
    if others > FEW * len(keys):
        found.append(f"{others} elements in {len(keys)} keys that do not expire")
    return found


def lasting_keys(server: Server) -> Iterator[tuple[bytes, bytes]]:
    """Every key that does not expire, with its type."""
    for key in all_keys(server):
        kind = server.command("TYPE", key)
        if isinstance(kind, bytes) and server.command("PTTL", key) == -1:
            yield key, kind


def all_keys(server: Server, *filters: str) -> Iterator[bytes]:
    """Every key, or those that the words after SCAN select."""
    cursor = b"0"
    while True:
        match server.command("SCAN", cursor, "COUNT", 1000, *filters):
            case [bytes(cursor), list(found)]:
                yield from (key for key in found if isinstance(key, bytes))
        if cursor == b"0":
            return
