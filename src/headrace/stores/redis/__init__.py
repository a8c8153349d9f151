"""Stores jobs on a Redis or Valkey server: streams are the lanes, one Lua script makes each atomic change."""

from __future__ import annotations

from headrace.core.runtime.clock import TimeSource
from headrace.core.store import Store
from headrace.core.values.credentials import Credentials
from headrace.core.values.names import checked_name
from headrace.stores.redis.client.address import parse_address
from headrace.stores.redis.server.cluster import ClusterStore
from headrace.stores.redis.server.durability import confirmation_of
from headrace.stores.redis.server.server import RedisServer

from .store import RedisStore


def create(
    url: str,
    *,
    namespace: str,
    durability: str,
    clock: TimeSource,
    credentials: Credentials | None = None,
) -> Store:
    """The scheme is `redis`, `rediss`, `valkey`, `valkeys` or `unix`. The URL may hold user, password and
    database. All schemes but `unix` also take `+sentinel` or `+cluster`."""
    confirmation, address = confirmation_of(durability), parse_address(url, credentials)
    make = ClusterStore if address.nodes else RedisServer
    return RedisStore(make(address, checked_name("namespace", namespace), clock), confirmation)
