"""A store with the router above it, as an app has them."""

from __future__ import annotations

from headrace.backends import open_store
from headrace.core.clock import Clock
from headrace.engine.streams import StreamRouter


def open_router(url: str, *, namespace: str = "headrace", clock: Clock | None = None) -> StreamRouter:
    """Not connected yet."""
    return StreamRouter(open_store(url, namespace=namespace, clock=clock))
