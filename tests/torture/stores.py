"""The stores of the harness: a SQLite file, or a server that nobody else uses, behind a proxy if a fault
needs one."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from .fleet import Server, ServerError, available
from .proxy import FaultyProxy

Family = Literal["sqlite", "redis"]

#: Nothing that the server answered is lost when it is killed.
PERSISTENT: Final = ("--appendfsync", "always")


class TortureStore(msgspec.Struct):
    """A store that may be harmed. `url` is how the fleet reaches it, `direct_url` is past the proxy."""

    kind: str
    url: str
    direct_url: str
    file: Path | None = None
    _server: Server | None = None
    _proxy: FaultyProxy | None = None

    @property
    def family(self) -> Family:
        return family_of(self.kind)

    @property
    def server(self) -> Server:
        assert self._server is not None, f"{self.kind} has no server"
        return self._server

    @property
    def proxy(self) -> FaultyProxy:
        assert self._proxy is not None, "this round has no proxy"
        return self._proxy

    def heal(self) -> None:
        """Put the server and the proxy right, as far as there are any."""
        if self._proxy is not None:
            self._proxy.heal()
        if self._server is not None:
            if self._server.running:
                os.kill(self._server.pid, signal.SIGCONT)
            self._server.start()
            with contextlib.suppress(ServerError):  # no script runs
                self._server.command("SCRIPT", "KILL")
            for setting in ("maxmemory", "min-replicas-to-write"):
                self._server.command("CONFIG", "SET", setting, 0)


def family_of(kind: str) -> Family:
    return "sqlite" if kind == "sqlite" else "redis"


def kinds() -> list[str]:
    """The stores of this machine: SQLite, then each server."""
    return ["sqlite", *(kind for kind, program in available().items() if program is not None)]


@asynccontextmanager
async def opened(kind: str, folder: Path, *, proxied: bool, persistent: bool) -> AsyncIterator[TortureStore]:
    if kind == "sqlite":
        url = f"sqlite:///{folder}/jobs.db"
        yield TortureStore(kind, url, url, file=folder / "jobs.db")
        return
    program = available()[kind]
    assert program is not None, f"no {kind} server on this machine"
    arguments = PERSISTENT if persistent else ()
    server = Server(program, directory=folder / "server", appendonly=persistent, arguments=arguments)
    with server:
        if not proxied:
            yield TortureStore(kind, server.url, server.url, _server=server)
            return
        async with FaultyProxy(server.port) as proxy:
            yield TortureStore(kind, proxy.url, server.url, _server=server, _proxy=proxy)
