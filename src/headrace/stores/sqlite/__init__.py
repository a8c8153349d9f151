"""The default store: one SQLite file, shared by every process of a machine."""

from __future__ import annotations

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import TimeSource
from headrace.core.store import Store
from headrace.core.values.credentials import Credentials, without_credentials
from headrace.stores.sqlite.connection.connection import Synchronous
from headrace.stores.sqlite.file.address import path_of

from .store import SqliteStore

#: The SQLite setting of each durability. FULL survives a power failure, NORMAL the death of any process.
DURABILITIES: dict[str, Synchronous] = {"default": "FULL", "relaxed": "NORMAL"}


def create(
    url: str,
    *,
    namespace: str,
    durability: str,
    clock: TimeSource,
    credentials: Credentials | None = None,
) -> Store:
    """`sqlite:///relative.db` or `sqlite:////absolute/path.db`. The first open creates the file."""
    without_credentials(credentials, "a SQLite file")
    if durability not in DURABILITIES:
        raise ConfigurationError(
            f"SQLite has no durability {durability!r}: 'default' survives a power failure,"
            " 'relaxed' may lose the last moments before one and is faster"
        )
    return SqliteStore(path_of(url), namespace=namespace, synchronous=DURABILITIES[durability], clock=clock)
