"""A durable PostgreSQL server for measurements, and the CPU time that it and this process have used."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final, NamedTuple

import psycopg

from tests.support.postgres_server import PostgresServer

#: Settings of a server that is not shared: memory and WAL of a small machine, everything durable.
SETTINGS: Final = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "autovacuum_naptime": "15s",
    "shared_preload_libraries": "pg_stat_statements",
}


def bench_server() -> PostgresServer:
    return PostgresServer(fast=False, settings=SETTINGS)


class BenchDatabase:
    """A database of its own on the shared server. `commit`: `synchronous_commit` for all its users."""

    def __init__(self, server: PostgresServer, commit: str) -> None:
        self._server = server
        self._commit = commit
        self._name = f"bench_{commit}"

    @property
    def url(self) -> str:
        return self._server.url.removesuffix("/postgres") + f"/{self._name}"

    @property
    def environment(self) -> dict[str, str]:
        """Where a peer counts the statements of its database."""
        return {"BENCH_LOOKING": self._server.url}

    def recreate(self) -> None:
        """Empty, without what the rows before have left in the server's memory."""
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            for statement in (
                "CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
                f"DROP DATABASE IF EXISTS {self._name} WITH (FORCE)",
                f"CREATE DATABASE {self._name}",
                f"ALTER DATABASE {self._name} SET synchronous_commit = {self._commit}",
                "CHECKPOINT",
            ):
                connection.execute(statement.encode())


class Usage(NamedTuple):
    """Seconds of a core that this process and all processes of the server have used so far."""

    client: float
    server: float

    @classmethod
    def of(cls, server: PostgresServer) -> Usage:
        own = resource.getrusage(resource.RUSAGE_SELF)
        return cls(own.ru_utime + own.ru_stime, _server_seconds(server))

    def since(self, before: Usage) -> Usage:
        return Usage(self.client - before.client, self.server - before.server)


def _server_seconds(server: PostgresServer) -> float:
    main = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    # Of the main process also what its children had used that have ended.
    ticks = sum(_ticks(main)) + sum(sum(_ticks(child)[:2]) for child in children)
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(process: str) -> list[int]:
    """User and system time of a process, then of its ended children."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # it has ended
        return [0, 0, 0, 0]
    return [int(field) for field in fields[11:15]]
