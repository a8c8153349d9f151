"""A census: how many elements each lasting part of a store has. Two stores on which the same program came to
its end have the same census, however long it ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from tests.support.servers import Reply
from tests.torture.fleet import Server
from tests.torture.residue import COUNTING, FEW, lasting_keys
from tests.torture.stores import TortureStore

#: Rows that are kept for a time, or up to a number, whatever happens: only what is beyond that counts. Counts
#: of minutes are kept for two hours, numbers of producers for ten minutes, and names of workers for a day.
BEYOND: Final = {
    "headrace_traffic": "minute < unixepoch() / 60 - 130",
    "headrace_producers": "at_us < (unixepoch() - 700) * 1000000",
    "headrace_workers": "info IS NOT NULL",
    "headrace_notices": "seq < (SELECT max(seq) FROM headrace_notices) - 10000",
}

#: Milliseconds for which the name of a consumer that holds nothing is kept, and some more.
FORGOTTEN: Final = (3600 + 300) * 1000

Census = dict[str, int]


def census(store: TortureStore) -> Census:
    return _rows(store.file) if store.file is not None else _elements(store.server)


def grown(before: Census, after: Census) -> list[str]:
    """What there is more of, in words."""
    return [
        f"{name}: {before.get(name, 0)} before, {number} after"
        for name, number in sorted(after.items())
        if number > before.get(name, 0)
    ]


def _rows(file: Path) -> Census:
    with closing(apsw.Connection(str(file))) as connection:
        connection.set_busy_timeout(10_000)
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {table: _count(connection, table) for table in [str(name) for (name,) in found]}


def _count(connection: apsw.Connection, table: str) -> int:
    which = BEYOND.get(table, "true")
    return int(str(next(iter(connection.execute(f"SELECT count(*) FROM {table} WHERE {which}")))[0]))


def _elements(server: Server) -> Census:
    """The elements of each key that does not expire, and consumers of streams that should be forgotten."""
    found: Census = {}  # the record of a queue or group has a few fields, some only after a fault
    for key, kind in lasting_keys(server):
        name = key.decode(errors="replace")
        number = server.command(COUNTING[kind], key) if kind in COUNTING else 1
        assert isinstance(number, int)
        found[name] = 0 if name.endswith("meta") and number <= FEW else number
        if kind == b"stream":
            found[f"old consumers of {name}"] = _old_consumers(server, key)
    return found


def most_consumers(server: Server) -> int:
    """How many consumers the stream with the most of them has."""
    streams = [key for key, kind in lasting_keys(server) if kind == b"stream"]
    groups = [group for key in streams for group in _rows_of(server.command("XINFO", "GROUPS", key))]
    return max((int(group[b"consumers"]) for group in groups), default=0)


def _old_consumers(server: Server, key: bytes) -> int:
    """Those that were not seen for longer than names of dead workers are kept."""
    found = 0
    for group in _rows_of(server.command("XINFO", "GROUPS", key)):
        for consumer in _rows_of(server.command("XINFO", "CONSUMERS", key, group[b"name"])):
            found += int(consumer[b"idle"]) > FORGOTTEN
    return found


def _rows_of(answer: Reply) -> Iterator[dict[bytes, bytes]]:
    """The rows of an answer that says name, value, name, value, ..."""
    assert isinstance(answer, list)
    for row in answer:
        assert isinstance(row, list)
        values = [each if isinstance(each, bytes) else str(each).encode() for each in row]
        yield dict(zip(values[::2], values[1::2], strict=True))
