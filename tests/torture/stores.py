"""The stores of the harness: a SQLite file, a server of its own, behind a proxy if a fault needs one, or
several servers that belong together."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from .dialogues import PostgresDialogue, RedisDialogue
from .fleet import (
    HOST,
    USER,
    Cluster,
    PostgresServer,
    Server,
    ServerError,
    SteppedClock,
    Watched,
    available,
    children_of,
    nobodys_folder,
    postgres_programs,
    wait_until_sync,
)
from .postgres_commands import ALLOW_WRITES, run
from .program import Durability
from .proxy import FaultyProxy

Family = Literal["sqlite", "redis", "sentinel", "cluster", "postgres"]

#: Where the file of SQLite is: in the folder of the round, on a small disk of its own, or on one that is not
#: memory.
Disk = Literal["", "small", "real"]

#: Nothing that PostgreSQL answered is lost when it is killed. A crash of the machine, which only `fsync`
#: survives, is no fault here.
POSTGRES_SETTINGS: Final = {"fsync": "off", "full_page_writes": "off"}

#: What a client of PostgreSQL must not ask the proxy for.
PLAIN: Final = "sslmode=disable&gssencmode=disable"

#: The server of the sentinels and of the cluster.
GROUP_KIND: Final = "valkey-9.1"

#: Bytes of a small disk: enough for what a round leaves behind.
SMALL: Final = 96 << 20


#: A folder on a disk: /tmp may be memory.
REAL_DISK: Final = Path("/var/tmp")


class TortureStore(msgspec.Struct):
    """A store that may be harmed. `url` is how the fleet reaches it, `direct_url` is past the proxy."""

    kind: str
    url: str
    direct_url: str
    file: Path | None = None
    clock: SteppedClock | None = None  # of the server, or of all processes where the store has none
    durability: Durability = "default"
    _server: Server | None = None
    _proxy: FaultyProxy | None = None
    _watched: Watched | None = None
    _cluster: Cluster | None = None
    _postgres: PostgresServer | None = None

    @property
    def family(self) -> Family:
        return family_of(self.kind)

    @property
    def server(self) -> Server:
        assert self._server is not None, f"{self.kind} has no server"
        return self._server

    @property
    def postgres(self) -> PostgresServer:
        assert self._postgres is not None, f"{self.kind} is no PostgreSQL"
        return self._postgres

    @property
    def process(self) -> Server | PostgresServer:
        """The one server, of either kind, that can be killed and started."""
        return self._postgres or self.server

    def signal_server(self, number: signal.Signals) -> None:
        """To the server, and to its child processes. PostgreSQL has one for each session."""
        if self.process.running:
            for pid in (self.process.pid, *children_of(self.process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    @property
    def proxy(self) -> FaultyProxy:
        assert self._proxy is not None, "this round has no proxy"
        return self._proxy

    @property
    def watched(self) -> Watched:
        assert self._watched is not None, f"{self.kind} has no sentinels"
        return self._watched

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None, f"{self.kind} is no cluster"
        return self._cluster

    @property
    def servers(self) -> list[Server]:
        """Those of Redis that hold a part of the store."""
        if self._watched is not None:
            return [self._watched.primary()]
        if self._cluster is not None:
            return self._cluster.owners()
        return [self._server] if self._server is not None else []

    def heal(self) -> None:
        """Put servers and the proxy right, as far as there are any."""
        for group in (self._watched, self._cluster):
            for server in group.servers if group is not None else ():
                server.start()
        if self._proxy is not None:
            self._proxy.heal()
        if self._server is not None or self._postgres is not None:
            self.signal_server(signal.SIGCONT)
            self.process.start()
        if self._postgres is not None:
            run(self._postgres, *ALLOW_WRITES)
        if self._server is not None:
            wait_until_sync(lambda: _is_free(self.server), timeout=30)
            for setting in ("maxmemory", "min-replicas-to-write"):
                self._server.command("CONFIG", "SET", setting, 0)


def _is_free(server: Server) -> bool:
    """Whether no script runs. One that a fault has left is killed, which takes a moment."""
    with contextlib.suppress(ServerError):  # no script runs
        server.command("SCRIPT", "KILL")
    try:
        return server.command("PING") == b"PONG"
    except ServerError:
        return False


def family_of(kind: str) -> Family:
    match kind:
        case "sqlite" | "sentinel" | "cluster" | "postgres":
            return kind
        case _:
            return "redis"


def kinds() -> list[str]:
    """The stores of this machine: SQLite, then each server, then the groups of servers, then PostgreSQL."""
    servers = [kind for kind, program in available().items() if program is not None]
    groups = ["sentinel", "cluster"] if GROUP_KIND in servers else []
    return ["sqlite", *servers, *groups, *(["postgres"] if postgres_programs() else [])]


@asynccontextmanager
async def opened(
    kind: str,
    folder: Path,
    *,
    proxied: bool = False,
    persistent: bool = True,
    disk: Disk = "",
    clock: bool = False,
) -> AsyncIterator[TortureStore]:
    if family_of(kind) == "postgres":
        async with _postgres(proxied=proxied, clock=clock) as store:
            yield store
        return
    stepped = SteppedClock(folder / "clock") if clock else None
    match family_of(kind):
        case "sqlite":
            with _file(disk, folder) as file:
                url = f"sqlite:///{file}"
                yield TortureStore(kind, url, url, file=file, clock=stepped)
        case "sentinel":
            # With one replica, what it has confirmed is on the server that takes over.
            with Watched(GROUP_KIND, folder / "servers", replicas=1) as watched:
                url = watched.url
                yield TortureStore(kind, url, url, durability="replicated", _watched=watched)
        case "cluster":
            with Cluster(GROUP_KIND, folder / "servers") as cluster:
                url = cluster.url
                yield TortureStore(kind, url, url, durability="replicated", _cluster=cluster)
        case "redis":
            async with _server(kind, folder, proxied=proxied, persistent=persistent, clock=stepped) as store:
                yield store


@asynccontextmanager
async def _server(
    kind: str, folder: Path, *, proxied: bool, persistent: bool, clock: SteppedClock | None
) -> AsyncIterator[TortureStore]:
    program = available()[kind]
    assert program is not None, f"no {kind} server on this machine"
    server = Server(
        clock.wrapped(program) if clock else program,
        directory=folder / "server",
        appendonly=persistent,
    )
    with server:
        if not proxied:
            yield TortureStore(kind, server.url, server.url, clock=clock, _server=server)
            return
        async with FaultyProxy(server.port, RedisDialogue) as proxy:
            url = f"redis://{HOST}:{proxy.port}/0"
            yield TortureStore(kind, url, server.url, clock=clock, _server=server, _proxy=proxy)


@asynccontextmanager
async def _postgres(*, proxied: bool, clock: bool) -> AsyncIterator[TortureStore]:
    """Its files are those of another user, so they are not in the folder of the round."""
    with _folder_of_nobody() as folder:
        stepped = SteppedClock(folder) if clock else None
        environment = stepped.environment if stepped else None
        with PostgresServer(fast=False, settings=POSTGRES_SETTINGS, environment=environment) as server:
            store = TortureStore("postgres", server.url, server.url, clock=stepped, _postgres=server)
            if not proxied:
                yield store
                return
            async with FaultyProxy(server.port, PostgresDialogue) as proxy:
                store.url = f"postgresql://{USER}@{HOST}:{proxy.port}/postgres?{PLAIN}"
                store._proxy = proxy
                yield store


@contextmanager
def _folder_of_nobody() -> Iterator[Path]:
    folder = nobodys_folder("torture-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _file(disk: Disk, folder: Path) -> Iterator[Path]:
    match disk:
        case "":
            yield folder / "jobs.db"
        case "real":
            with tempfile.TemporaryDirectory(prefix="torture-", dir=REAL_DISK) as place:
                yield Path(place) / "jobs.db"
        case "small":
            with small_disk(folder / "disk") as place:
                yield place / "jobs.db"


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of its own, in memory. Only root may mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(_mount(folder), check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def cannot_mount() -> str:
    """Why this machine allows no small disk; empty: it does."""
    if shutil.which("mount") is None:
        return "there is no mount command"
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(_mount(Path(folder)), check=False, capture_output=True).returncode:
            return "only root may mount a small disk"
        subprocess.run(["umount", folder], check=True)
    return ""


def _mount(folder: Path) -> list[str]:
    return ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)]
