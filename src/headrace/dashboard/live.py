"""Pages that keep themselves up to date: server-sent events with the part of a page that changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Match, Route

from .site import Page, Site

#: Seconds between two looks, and between two signs of life when nothing changes.
LOOK = 1.0
SIGN_OF_LIFE = 10.0

#: Streams at a time: each looks at the store once a second.
MOST = 50

_encode = msgspec.json.Encoder().encode


async def live(request: Request) -> Response:
    """`/live?path=/queues/default`: the live part of that page, whenever it has changed."""
    site: Site = request.app.state.site
    found = _find(site, request)
    if found is None:
        return PlainTextResponse("there is no such page", 404)
    running = getattr(request.app.state, "streams", 0)
    if running >= MOST:
        return PlainTextResponse("too many live pages are open", 503)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_changes(site, *found), media_type="text/event-stream", headers=headers)


def _find(site: Site, request: Request) -> tuple[Page, Request] | None:
    """The page of that path, and the request that a browser would make for it."""
    parts = urlsplit(request.query_params.get("path", "/"))
    root = request.scope.get("root_path", "")
    scope = {
        **request.scope,
        "path": root + parts.path,
        "raw_path": (root + parts.path).encode(),
        "query_string": parts.query.encode(),
    }
    for path, page in site.pages.items():
        match, child = Route(path, _nothing, methods=["GET"]).matches(scope)
        if match is Match.FULL:
            return page, Request({**scope, **child})
    return None


async def _changes(site: Site, page: Page, request: Request) -> AsyncIterator[bytes]:
    state = request.app.state
    state.streams = getattr(state, "streams", 0) + 1
    try:
        last, silent = None, 0.0
        while True:
            content = await site.content(page, request)
            html = site.live_part(content, request)
            if html != last:
                last, silent = html, 0.0
                yield b"event: live\ndata: " + _encode(html) + b"\n\n"
            elif silent >= SIGN_OF_LIFE:
                silent = 0.0
                yield b": here\n\n"
            await asyncio.sleep(LOOK)
            silent += LOOK
    finally:
        state.streams -= 1


async def _nothing(request: Request) -> Response:
    raise AssertionError("only used to match paths")
