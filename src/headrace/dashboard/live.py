"""Pages that keep themselves up to date: server-sent events with the part of a page that changes."""

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

from .access import Access, root_of
from .site import Content, Page, Site

#: Seconds from one look to the next. After one that takes long there is a pause of so many times as long, up
#: to a bound, so that looking is a small part of the time.
LOOK: Final = 1.0
PART: Final = 4
LONGEST: Final = 5.0

#: Streams at a time: each looks at the store once a second.
MOST: Final = 50

_encode = msgspec.json.Encoder().encode


class Streams:
    """The live pages that are open. `close` ends them, since none ends by itself."""

    def __init__(self) -> None:
        self.count = 0
        self._closed = asyncio.Event()

    def close(self) -> None:
        self._closed.set()

    async def pause(self, seconds: float) -> bool:
        """Wait; False: it is time to end."""
        try:
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        except TimeoutError:
            return True
        return False


async def live(request: Request) -> Response:
    """`/live?path=/queues/default`: the live part of that page, whenever it has changed."""
    site: Site = request.app.state.site
    streams: Streams = request.app.state.streams
    found = _find(site, request)
    if found is None:
        return PlainTextResponse("there is no such page", 404)
    if streams.count >= MOST:
        return PlainTextResponse("too many live pages are open", 503)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    changes = _changes(site, streams, *found, request)
    return StreamingResponse(changes, media_type="text/event-stream", headers=headers)


def _find(site: Site, request: Request) -> tuple[Page, Request] | None:
    """The page of that path, and the request that a browser would make for it."""
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
        match, child = Route(pattern, _nothing, methods=["GET"]).matches(scope)
        if match is Match.FULL:
            return page, Request({**scope, **child})
    return None


async def _changes(
    site: Site, streams: Streams, page: Page, asked: Request, request: Request
) -> AsyncIterator[bytes]:
    access: Access = request.app.state.access
    streams.count += 1
    try:
        last: bytes | None = None
        # Asked again each time: who logs out, or whose session ends, sees no more.
        while not await request.is_disconnected() and await access.unknown(request) is None:
            began = time.monotonic()
            content = await site.content(page, asked)
            event = _event(site, content, asked)
            # A sign of life otherwise: proxies end what is silent.
            yield event if event != last else b": here\n\n"
            last = event
            took = time.monotonic() - began
            if not await streams.pause(LOOK if content.away else pause_after(took)):
                return
    finally:
        streams.count -= 1


def pause_after(took: float) -> float:
    """A change is seen by the look after it: within a second, as long as a look takes less than a fifth."""
    return min(max(LOOK - took, PART * took), LONGEST)


def _event(site: Site, content: Content, asked: Request) -> bytes:
    if content.away:
        return b"event: away\ndata: " + _encode(content.away) + b"\n\n"
    return b"event: live\ndata: " + _encode(site.live_part(content, asked)) + b"\n\n"


async def _nothing(request: Request) -> Response:
    raise AssertionError("only used to match paths")
