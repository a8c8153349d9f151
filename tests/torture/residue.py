"""What is left inside a server after draining: only its own record of queues and groups, however many
messages went through. A key that expires by itself does not count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .fleet import PostgresServer, Server
from .postgres_commands import run

#: The command that counts the elements of a key, by its type.
COUNTING: Final = {b"stream": "XLEN", b"hash": "HLEN", b"zset": "ZCARD", b"set": "SCARD", b"list": "LLEN"}

#: The history of a queue. It keeps many jobs, within its own limits.
HISTORY: Final = re.compile(rb":history(/\w+)?$")

#: Elements that a key may have for each queue, group and worker. When something of each message is left, it
#: shows in the sum: rounds have thousands.
FEW: Final = 20


def residue(servers: Sequence[Server], *, events: int) -> list[str]:
    """What is too much, in words. `events` are those that the logs of topics keep."""
    entries = others = 0
    found = [(server, *each) for server in servers for each in lasting_keys(server)]
    keys = [(server, key, kind) for server, key, kind in found if not HISTORY.search(key)]
    for server, key, kind in keys:
        number = server.command(COUNTING[kind], key) if kind in COUNTING else 1
        assert isinstance(number, int)
        if kind == b"stream":
            entries += number
        else:
            others += number
    much: list[str] = []
    if entries != events:
        much.append(f"{entries} entries in streams, where topics keep {events} events")
    if others > FEW * len(keys):
        much.append(f"{others} elements in {len(keys)} keys that do not expire")
    return much


#: Rows of messages that have not come to their end (see `rows/lanes.py` of the store), of counts that are
#: wrong, of keys whose owner is gone, and of jobs that no relay has handed on.
UNWANTED: Final = {
    "messages that have not ended": "SELECT count(*) FROM headrace.messages WHERE place < 11",
    "streams with counts that are not 0": (
        "SELECT count(*) FROM (SELECT 1 FROM headrace.counts GROUP BY stream HAVING sum(queued) <> 0"
        " OR sum(running) <> 0 OR sum(scheduled) <> 0 OR sum(retrying) <> 0 OR sum(dead) <> 0"
        " OR sum(parked) <> 0) AS wrong"
    ),
    "unique keys that are still taken": (
        "SELECT count(*) FROM headrace.unique_keys WHERE id <> '' AND expires_us IS NULL"
    ),
    "rows in outboxes": "SELECT count(*) FROM headrace.outgoing",
    "lines of jobs": "SELECT count(*) FROM headrace.lines",
    "tenants": "SELECT count(*) FROM headrace.tenants",
    "slots that are still taken": "SELECT count(*) FROM headrace.budgets WHERE running <> 0",
}


def residue_of_postgres(server: PostgresServer) -> list[str]:
    """What is too much, in words."""
    counted = {what: run(server, question)[0][0] for what, question in UNWANTED.items()}
    return [f"{number} {what}" for what, number in counted.items() if number]


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
