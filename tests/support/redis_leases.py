"""Makes what is held on Redis look older. A server counts leases on a clock that no test can move."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from .servers import Reply, ask

#: Adds milliseconds to the idle time of all pending entries of a stream, in one step.
AGE: Final = """
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  for _, row in ipairs(redis.call('XPENDING', KEYS[1], group[2], '-', '+', 100000)) do
    redis.call('XCLAIM', KEYS[1], group[2], row[2], 0, row[1], 'IDLE', row[3] + ARGV[1], 'JUSTID')
  end
end
"""


def age_leases(url: str, seconds: float, namespace: str = "") -> None:
    """All leases of a namespace, or of all of them, on every primary that the URL leads to."""
    database = urlsplit(url).path.strip("/")
    for place in _primaries(url):
        with socket.create_connection(place, timeout=5) as connection:
            if database.isdigit():
                ask(connection, "SELECT", database)
            for key in _words(ask(connection, "KEYS", f"*{namespace}*")):
                if ask(connection, "TYPE", key) == b"stream":
                    ask(connection, "EVAL", AGE, 1, key, round(seconds * 1000))


def _primaries(url: str) -> Iterator[tuple[str, int]]:
    scheme, _, rest = url.partition("://")
    first = rest.rpartition("@")[2].partition("/")[0].split(",")[0]
    host, _, port = first.rpartition(":")
    kind = scheme.partition("+")[2]
    if not kind:
        yield host, int(port)
        return
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        if kind == "sentinel":
            name = urlsplit(url).path.strip("/").partition("/")[0]
            at, number = _words(ask(connection, "SENTINEL", "get-master-addr-by-name", name))
            yield at.decode(), int(number)
            return
        [nodes] = _words([ask(connection, "CLUSTER", "NODES")])
        for line in nodes.decode().splitlines():
            _, address, flags, *_ = line.split()
            if "master" in flags:
                host, _, port = address.partition("@")[0].rpartition(":")
                yield host, int(port)


def _words(answer: Reply) -> list[bytes]:
    assert isinstance(answer, list)
    return [each for each in answer if isinstance(each, bytes)]
