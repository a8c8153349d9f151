"""The reference store: the contract in plain Python, in the memory of one process."""

from __future__ import annotations

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import TimeSource
from headrace.core.store import Store
from headrace.core.values.credentials import Credentials, without_credentials
from headrace.core.values.names import PATTERN

from .shared_state import SharedState, shared_store
from .store import MemoryStore


def create(
    url: str,
    *,
    namespace: str,
    durability: str,
    clock: TimeSource,
    credentials: Credentials | None = None,
) -> Store:
    """`memory://` creates a private store. `memory://name` is a store that the whole process shares."""
    without_credentials(credentials, "a store in memory")
    name = url.removeprefix("memory://")
    if name and not PATTERN.fullmatch(name):
        raise ConfigurationError(
            f"{url!r} is not a memory store: write memory://, or memory://name for one that is shared in the"
            " process, with nothing behind the name"
        )
    if durability != "default":
        raise ConfigurationError(f"a store in memory has no durability {durability!r}: leave it at 'default'")
    store = shared_store(namespace, name) if name else SharedState()
    return MemoryStore(store, name=name, clock=clock)
