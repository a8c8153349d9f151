"""A store with the router above it, as an app has them."""

from __future__ import annotations

from headrace.core.runtime.clock import TimeSource
from headrace.engine.streams import StreamRouter
from headrace.stores import open_store


def open_router(url: str, *, namespace: str = "headrace", clock: TimeSource | None = None) -> StreamRouter:
    """Not connected yet."""
    return StreamRouter(open_store(url, namespace=namespace, clock=clock))
