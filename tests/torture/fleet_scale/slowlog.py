"""What a server does: its processor time and the times of its scripts. For a while its slow log takes every
command, so that the scripts have names."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import ceil
from typing import Final

import msgspec

from headrace.stores.redis import scripts
from tests.support.servers import HOST, Reply, ask
from tests.torture.fleet import Server

#: Entries that the log may have: more commands than a window has.
ENTRIES: Final = 2_000_000

#: Scripts that find and recover what others left, and those that queue what is due.
RECLAIM: Final = frozenset({"overdue", "recover", "rebase", "forget_consumers"})
PROMOTION: Final = frozenset({"promote", "issue_due_events"})

_NAMES: Final = {
    script.digest: script.name for script in vars(scripts).values() if isinstance(script, scripts.Script)
}


class Work(msgspec.Struct):
    """The times of one script, in microseconds."""

    name: str
    times: list[int]

    @property
    def total(self) -> int:
        return sum(self.times)

    def percentile(self, part: float) -> int:
        return sorted(self.times)[ceil(part * len(self.times)) - 1]


class Window(msgspec.Struct):
    """What the server did in some seconds, and for how many microseconds scripts ran. `cpu`: seconds of its
    processor time."""

    seconds: float = 0.0
    cpu: float = 0.0
    commands: int = 0  # as the server counts them
    median: float = 0.0
    p999: float = 0.0
    longest: float = 0.0

    @property
    def core(self) -> float:
        """The share of a core."""
        return self.cpu / self.seconds


class NamedWindow(msgspec.Struct):
    """What the server did in some seconds, by script. To write each command down takes some time too."""

    seconds: float = 0.0
    work: list[Work] = []

    def share(self, names: frozenset[str]) -> float:
        """The part of the time in which these scripts ran."""
        return sum(each.total for each in self.work if each.name in names) / self.seconds / 1e6


@asynccontextmanager
async def watched(server: Server) -> AsyncIterator[Window]:
    """Fills the window at the end of the block."""
    server.command("CONFIG", "SET", "latency-tracking-info-percentiles", "50 99.9 100")
    server.command("CONFIG", "RESETSTAT")
    began, cpu = time.monotonic(), _cpu(server)
    window = Window()
    yield window
    window.seconds, window.cpu = time.monotonic() - began, _cpu(server) - cpu
    window.commands = int(_info(server, "stats")["total_commands_processed"])
    found = _info(server, "latencystats").get("latency_percentiles_usec_evalsha", "p50=0,p99.9=0,p100=0")
    window.median, window.p999, window.longest = (float(part.split("=")[1]) for part in found.split(","))


@asynccontextmanager
async def named(server: Server) -> AsyncIterator[NamedWindow]:
    """Fills the window at the end of the block."""
    log = SlowLog(server)
    began = time.monotonic()
    window = NamedWindow()
    collecting = asyncio.create_task(log.collect())
    yield window
    log.ended.set()
    await collecting
    window.seconds = time.monotonic() - began
    found = (Work(name, times) for name, times in log.times.items())
    window.work = sorted(found, key=lambda work: -work.total)


class SlowLog:
    """Reads the slow log once a second, so that no answer is large."""

    def __init__(self, server: Server) -> None:
        self.ended = asyncio.Event()
        self.times: dict[str, list[int]] = defaultdict(list)
        server.command("CONFIG", "SET", "slowlog-max-len", ENTRIES)
        server.command("SLOWLOG", "RESET")
        self._connection = socket.create_connection((HOST, server.port), timeout=30)
        ask(self._connection, "CONFIG", "SET", "slowlog-log-slower-than", 0)

    async def collect(self) -> None:
        while not self.ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self.ended.wait()
            await asyncio.to_thread(self._take)
        ask(self._connection, "CONFIG", "SET", "slowlog-log-slower-than", -1)
        self._connection.close()

    def _take(self) -> None:
        """Take all entries, and count their times."""
        for command in (("MULTI",), ("SLOWLOG", "GET", ENTRIES), ("SLOWLOG", "RESET")):
            ask(self._connection, *command)
        match ask(self._connection, "EXEC"):
            case [list(entries), _]:
                for entry in entries:
                    self._count(entry)

    def _count(self, entry: Reply) -> None:
        match entry:
            case [_, _, int(took), [b"EVALSHA", bytes(digest), *_], *_] if digest in _NAMES:
                self.times[_NAMES[digest]].append(took)


def _cpu(server: Server) -> float:
    """Seconds of processor time that the server has used, with all its threads."""
    values = _info(server, "cpu")
    return float(values["used_cpu_user"]) + float(values["used_cpu_sys"])


def _info(server: Server, section: str) -> dict[str, str]:
    found = server.command("INFO", section)
    assert isinstance(found, bytes)
    lines = [line.split(":", 1) for line in found.decode().splitlines() if ":" in line]
    return {name: value for name, value in lines}
