"""Jobs on a Redis or Valkey server: streams as lanes, one Lua script for each atomic change."""

from __future__ import annotations

from headrace.core.backend import Backend
from headrace.core.clock import Clock
from headrace.core.names import checked_name

from .address import parse_address
from .backend import RedisBackend
from .durability import confirmation_of
from .store import Store


def create(url: str, *, namespace: str, durability: str, clock: Clock) -> Backend:
    """`redis://`, `rediss://`, `valkey://`, `valkeys://` or `unix://`, with user, password and database."""
    confirmation = confirmation_of(durability)
    return RedisBackend(Store(parse_address(url), checked_name("namespace", namespace), clock), confirmation)
