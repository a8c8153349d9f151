"""Outboxes in databases of the user, by the scheme of their URL."""

from __future__ import annotations

from pathlib import Path

from headrace.core.errors import ConfigurationError
from headrace.core.outbox.database import OutboxDatabase
from headrace.core.runtime.clock import SystemClock, TimeSource


def chosen_outbox(url: object, *, namespace: str, clock: TimeSource) -> OutboxDatabase:
    """The outbox that the URL names, not yet connected."""
    if isinstance(url, str) and url.startswith("sqlite://"):
        from .sqlite_outbox import SqliteOutbox

        return SqliteOutbox(url, namespace=namespace, clock=clock)
    if isinstance(url, str) and url.startswith(("postgresql://", "postgres://")):
        try:
            from headrace.stores.postgres.user_database import PostgresOutbox
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"postgresql:// needs {error.name}, which is not installed: pip install 'headrace[postgres]'"
            ) from error
        return PostgresOutbox(url, namespace=namespace, clock=clock)
    shown = "a URL that may hold a password" if isinstance(url, str) and "@" in url else repr(url)
    raise ConfigurationError(f"outbox= takes sqlite:///… or postgresql://…, not {shown}")


async def schema_of(url: str) -> str:
    """Make the tables in the database that the URL names; answers in a few words what is there then."""
    outbox = chosen_outbox(url, namespace="headrace", clock=SystemClock())
    try:
        return await outbox.apply()
    finally:
        await outbox.close()


def schema_script(database: str) -> str:
    """The statements that `schema_of` runs, for people who migrate by hand."""
    from .sqlite_outbox import SCHEMA

    return SCHEMA


def own_sqlite_file(url: str | None, outbox: OutboxDatabase | None) -> Path | None:
    """The file of an app's own SQLite store. It cannot hold the outbox too: the store opens it with another
    SQLite library than the user."""
    if url is None or not url.startswith("sqlite://"):
        return None
    from headrace.stores.sqlite.file.address import path_of

    file = path_of(url)
    if outbox is not None and outbox.is_in(file):
        raise ConfigurationError(
            f"the outbox cannot be in {file}, the SQLite store of this app: keep your tables in another file"
        )
    return file
