"""A real server on a free port of this machine, for a site of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn

from tests.support.waiting import wait_until


@asynccontextmanager
async def served(site: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve an ASGI application on this event loop, and give a client for it."""
    server = uvicorn.Server(uvicorn.Config(site, port=0, log_level="critical", lifespan="on"))
    serving = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started or serving.done())
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
            yield client
    finally:
        server.should_exit = True
        await serving
