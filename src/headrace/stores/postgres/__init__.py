"""A fleet in a PostgreSQL database: every process that reaches the server shares the streams."""

from __future__ import annotations

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import TimeSource
from headrace.core.store import Store
from headrace.core.values.credentials import Credentials

from .address import PostgresAddress
from .store import PostgresStore

#: PostgreSQL's `synchronous_commit` for each durability. `default` is what the server has, but at least `on`.
DURABILITIES: dict[str, str] = {"default": "default", "relaxed": "off", "replicated": "remote_apply"}


def create(
    url: str,
    *,
    namespace: str,
    durability: str,
    clock: TimeSource,
    credentials: Credentials | None = None,
) -> Store:
    """`postgresql://user@host/database?schema=headrace`, with everything that libpq takes."""
    if durability not in DURABILITIES:
        raise ConfigurationError(
            f"PostgreSQL has no durability {durability!r}: 'default' survives a crash of the server,"
            " 'relaxed' may lose the last moments before one and is faster, 'replicated' waits for standbys"
        )
    address = PostgresAddress.parse(url, credentials)
    return PostgresStore(address, namespace=namespace, durability=DURABILITIES[durability], clock=clock)
