"""Live pages: server-sent events with the part of a page that changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Match, Route

from headrace.dashboard.access.access import Access, root_of

from .site import Content, PageFunction, Site

#: Seconds from one update to the next. After a slow update the pause is so many times as long as the update,
#: up to a limit, so that updates take a small part of the time.
INTERVAL: Final = 1.0
PAUSE_FACTOR: Final = 4
LONGEST: Final = 5.0

#: Live pages at a time: each asks the store once a second.
MOST: Final = 50

_encode = msgspec.json.Encoder().encode


class LivePages:
    """The live pages that are open. `close` ends them, because none ends by itself."""

    def __init__(self) -> None:
        self.count = 0
        self._closed = asyncio.Event()

    def close(self) -> None:
        self._closed.set()

    async def pause(self, seconds: float) -> bool:
        """Wait. False: the page must end."""
        try:
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        except TimeoutError:
            return True
        return False


async def live(request: Request) -> Response:
    """`/live?path=/queues/default`: sends the live part of that page each time it has changed."""
    site: Site = request.app.state.site
    live_pages: LivePages = request.app.state.live_pages
    found = _find(site, request)
    if found is None:
        return PlainTextResponse("there is no such page", 404)
    if live_pages.count >= MOST:
        return PlainTextResponse("too many live pages are open", 503)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    changes = _changes(site, live_pages, *found, request)
    return StreamingResponse(changes, media_type="text/event-stream", headers=headers)


def _find(site: Site, request: Request) -> tuple[PageFunction, Request] | None:
    """The page of that path, and the request that a browser sends for it."""
    try:
        parts = urlsplit(request.query_params.get("path", "/"))
    except ValueError:
        return None
    path = root_of(request) + unquote(parts.path)
    scope = {
        **request.scope,
        "path": path,
        "raw_path": path.encode(),
        "query_string": parts.query.encode(),
    }
    for pattern, page in site.pages.items():
        match, child = Route(pattern, _not_called, methods=["GET"]).matches(scope)
        if match is Match.FULL:
            return page, Request({**scope, **child})
    return None


async def _changes(
    site: Site, live_pages: LivePages, page: PageFunction, asked: Request, request: Request
) -> AsyncIterator[bytes]:
    access: Access = request.app.state.access
    live_pages.count += 1
    try:
        last: bytes | None = None
        # Access is checked each time: a user who logs out, or whose session ends, gets no more updates.
        while not await request.is_disconnected() and await access.refused_visitor(request) is None:
            began = time.monotonic()
            content = await site.content(page, asked)
            event = _event(site, content, asked)
            # Proxies end a silent connection, so a comment is sent when nothing has changed.
            yield event if event != last else b": no change\n\n"
            last = event
            took = time.monotonic() - began
            if not await live_pages.pause(INTERVAL if content.unavailable else pause_after(took)):
                return
    finally:
        live_pages.count -= 1


def pause_after(took: float) -> float:
    """A change shows within a second, as long as an update takes less than a fifth of it."""
    return min(max(INTERVAL - took, PAUSE_FACTOR * took), LONGEST)


def _event(site: Site, content: Content, asked: Request) -> bytes:
    if content.unavailable:
        return b"event: unavailable\ndata: " + _encode(content.unavailable) + b"\n\n"
    return b"event: live\ndata: " + _encode(site.live_part(content, asked)) + b"\n\n"


async def _not_called(request: Request) -> Response:
    raise AssertionError("only used to match paths")
