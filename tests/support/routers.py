"""A store with the router above it, as an app has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.core.runtime.clock import TimeSource
from headrace.engine.streams import StreamRouter
from headrace.stores import open_store


def open_router(url: str, *, namespace: str = "headrace", clock: TimeSource | None = None) -> StreamRouter:
    """Not connected yet."""
    return StreamRouter(open_store(url, namespace=namespace, clock=clock))


@asynccontextmanager
async def opened_router(url: str) -> AsyncIterator[StreamRouter]:
    """What another process sees of the store of an app."""
    router = open_router(url)
    await router.open()
    try:
        yield router
    finally:
        await router.close()
