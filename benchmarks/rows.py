"""What is run: ours on each store and loop, the raw limit beside them, and the peers."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.support.servers import Server, available

from .environments import peer_command
from .peers import EVENTS, LIMITS, PEERS, POSTGRES_PEERS, TWO, Peer
from .postgres_stand import BenchDatabase, bench_server

#: The servers in the order in which they are preferred.
KINDS = ("redis-7.0", "valkey-9.1", "redis-6.2")
NEWEST = "redis-8"


class Row(NamedTuple):
    """A program that prints figures; the scale is appended. Its server and its folder are emptied before it
    runs."""

    name: str
    command: list[str]
    server: Server | None = None
    folder: Path | None = None
    database: BenchDatabase | None = None


class Missing(NamedTuple):
    """A row that cannot be run here, and why."""

    name: str
    why: str


class Stand:
    """The servers and folders of a run, started when the first row needs them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._servers: dict[str, Server] = {}
        self._databases: dict[str, BenchDatabase] = {}

    @property
    def kind(self) -> str:
        found = available()
        kind = next((kind for kind in KINDS if found.get(kind)), None)
        if kind is None:
            sys.exit("benchmarks: no Redis or Valkey server found; leave redis out of --stores")
        return kind

    def server(self, kind: str) -> Server | None:
        program = available().get(kind)
        if program is None:
            return None
        if kind not in self._servers:
            server = Server(program, directory=self.folder())
            self._servers[kind] = self._stack.enter_context(server)
        return self._servers[kind]

    def databases(self) -> dict[str, BenchDatabase]:
        """One for each `synchronous_commit`, on one server."""
        if not self._databases:
            server = self._stack.enter_context(bench_server())
            self._databases = {commit: BenchDatabase(server, commit) for commit in ("on", "off")}
        return self._databases

    def folder(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory()))


def our_rows(stores: list[str], stand: Stand) -> Iterator[Row]:
    loops = loops_here()
    if "redis" in stores:
        yield from _redis_rows(stand, loops)
    if "sqlite" in stores:
        url = f"sqlite:///{stand.folder()}/bench.db"
        for loop in loops:
            yield _case(f"sqlite FULL, {loop}", "store", url, loop)
    if "memory" in stores:
        for loop in loops:
            yield _case(f"memory, {loop}", "store", "memory://", loop)
    if "postgres" in stores:
        yield from _postgres_rows(stand, loops[-1])
    yield from _two_processes_rows(stores, stand, loops)
    yield from _events_rows(stores, stand, loops)
    yield from _limits_rows(stores, stand, loops[-1])


def peer_rows(stores: list[str], stand: Stand, is_wanted: Callable[[str], bool]) -> Iterator[Row | Missing]:
    """Those that are not wanted get no environment, which takes minutes."""
    if "postgres" in stores:
        for peer in filter(lambda peer: is_wanted(f"{peer.name}, postgres"), POSTGRES_PEERS):
            yield from _peer_on_postgres(peer, stand)
    for peer in filter(lambda peer: is_wanted(peer.name), PEERS):
        if peer.server is None:
            yield Row(peer.name, peer_command(peer, None))
        elif "redis" in stores:
            yield _peer_on_server(peer, stand)


def loops_here() -> list[str]:
    """The event loops that are installed; the last one is what `[fast]` brings."""
    try:
        import uvloop  # noqa: F401
    except ModuleNotFoundError:
        return ["asyncio"]
    return ["asyncio", "uvloop"]


def _redis_rows(stand: Stand, loops: list[str]) -> Iterator[Row]:
    for kind in (stand.kind, NEWEST):
        server = stand.server(kind)
        if server is None:
            continue
        for loop in loops:
            yield _case(f"raw limit, {kind}, {loop}", "raw", server.url, loop, server)
            yield _case(f"{kind}, {loop}", "store", server.url, loop, server)
    server = stand.server(stand.kind)
    assert server is not None
    yield _case(f"promises, {stand.kind}, {loops[-1]}", "promises", server.url, loops[-1], server)


def postgres_name(commit: str) -> str:
    return f"postgres, synchronous_commit {commit}"


def _postgres_rows(stand: Stand, loop: str) -> Iterator[Row]:
    for commit, database in stand.databases().items():
        name, kind = postgres_name(commit), "store" if commit == "on" else "store-relaxed"
        for row in (
            _case(f"raw limit, {name}", "postgres-raw", database.url, loop),
            _case(name, kind, database.url, loop),
        ):
            yield row._replace(database=database)
    database = stand.databases()["on"]
    promises = _case(f"promises, {postgres_name('on')}", "postgres-promises", database.url, loop)
    yield promises._replace(database=database)


def _peer_on_postgres(peer: Peer, stand: Stand) -> Iterator[Row | Missing]:
    for commit, database in stand.databases().items():
        name = f"{peer.name}, {postgres_name(commit)}"
        try:
            yield Row(name, peer_command(peer, database.url), database=database)
        except (subprocess.CalledProcessError, OSError) as error:
            yield Missing(name, f"it cannot be installed here: {error}")


def _two_processes_rows(stores: list[str], stand: Stand, loops: list[str]) -> Iterator[Row]:
    for loop in loops:
        if "redis" in stores:
            server = stand.server(stand.kind)
            assert server is not None
            row = f"{stand.kind}, {loop}"
            yield _case(f"{TWO}, by hand, {row}", "by-hand", server.url, loop, server)
            yield _case(f"{TWO}, {row}", "two-processes", server.url, loop, server)
        if "sqlite" in stores:
            folder = stand.folder()
            url = f"sqlite:///{folder}/two.db"
            yield _case(f"{TWO}, by hand, sqlite FULL, {loop}", "by-hand", url, loop, folder=folder)
            yield _case(f"{TWO}, sqlite FULL, {loop}", "two-processes", url, loop, folder=folder)


def _events_rows(stores: list[str], stand: Stand, loops: list[str]) -> Iterator[Row]:
    """On a topic events stay: a file is emptied as the server is, so that every round begins with none."""
    for loop in loops:
        if "redis" in stores:
            server = stand.server(stand.kind)
            assert server is not None
            yield _case(f"{EVENTS}, {stand.kind}, {loop}", "events", server.url, loop, server)
        if "sqlite" in stores:
            folder = stand.folder()
            url = f"sqlite:///{folder}/events.db"
            yield _case(f"{EVENTS}, sqlite FULL, {loop}", "events", url, loop, folder=folder)
        if "memory" in stores:
            yield _case(f"{EVENTS}, memory, {loop}", "events", "memory://", loop)


def _limits_rows(stores: list[str], stand: Stand, loop: str) -> Iterator[Row]:
    if "redis" in stores:
        server = stand.server(stand.kind)
        assert server is not None
        yield _case(f"{LIMITS}, {stand.kind}, {loop}", "limits", server.url, loop, server)
    if "sqlite" in stores:
        folder = stand.folder()
        url = f"sqlite:///{folder}/limits.db"
        yield _case(f"{LIMITS}, sqlite FULL, {loop}", "limits", url, loop, folder=folder)
    if "postgres" in stores:
        database = stand.databases()["on"]
        row = _case(f"{LIMITS}, {postgres_name('on')}", "limits", database.url, loop)
        yield row._replace(database=database)


def _case(
    name: str, kind: str, url: str, loop: str, server: Server | None = None, folder: Path | None = None
) -> Row:
    command = [sys.executable, "-m", "benchmarks.case", kind, url, "--loop", loop, "--scale"]
    return Row(name, command, server, folder)


def _peer_on_server(peer: Peer, stand: Stand) -> Row | Missing:
    kind = stand.kind if peer.server == "redis" else NEWEST
    server = stand.server(kind)
    if server is None:
        return Missing(peer.name, "it needs Redis 8.6: name a server's program in HEADRACE_REDIS8")
    return Row(peer.name, peer_command(peer, server.url), server)
