"""Jobs on a Redis or Valkey server: streams as lanes, one Lua script for each atomic change."""

from __future__ import annotations

from headrace.core.runtime.clock import TimeSource
from headrace.core.store import Store
from headrace.core.values.names import checked_name
from headrace.stores.redis.client.address import parse_address

from .cluster import ClusterStore
from .durability import confirmation_of
from .server import RedisServer
from .store import RedisStore


def create(url: str, *, namespace: str, durability: str, clock: TimeSource) -> Store:
    """`redis://`, `rediss://`, `valkey://`, `valkeys://` or `unix://`, with user, password and database; all
    but the last also with `+sentinel` or `+cluster`."""
    confirmation, address = confirmation_of(durability), parse_address(url)
    make = ClusterStore if address.nodes else RedisServer
    return RedisStore(make(address, checked_name("namespace", namespace), clock), confirmation)
