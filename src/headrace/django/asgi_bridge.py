"""Asks an ASGI application on behalf of a Django view."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

#: Headers of proxies. Django has read them, as its settings say.
_OF_PROXIES = ("forwarded", "via", "x-forwarded-", "x-real-ip")


def scope_of(request: HttpRequest, root: str) -> Scope:
    """The request below `root` for an ASGI application."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers["host"] = request.get_host()
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": quote(request.path).encode(),
        "root_path": root,
        "query_string": request.META.get("QUERY_STRING", "").encode(),
        "headers": [
            (name.encode(), value.encode("latin-1", "replace"))
            for name, value in headers.items()
            if not name.startswith(_OF_PROXIES)
        ],
        "client": (request.META.get("REMOTE_ADDR") or "", 0),
        "server": (request.META.get("SERVER_NAME", ""), int(request.META.get("SERVER_PORT") or 0)),
    }


class Exchange:
    """One request to an ASGI application, and its answer."""

    def __init__(self, application: ASGIApp, scope: Scope, body: bytes) -> None:
        self._application = application
        self._scope = scope
        self._body: bytes | None = body
        self._start: MutableMapping[str, Any] = {}
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def run(self) -> HttpResponse:
        """The whole answer."""
        await self._ask()
        parts = [part async for part in self._sent()]
        return self._with_head(HttpResponse(b"".join(parts), status=self._start["status"]))

    async def stream(self) -> AsyncIterator[bytes]:
        """The body, while the application sends it."""
        asking = asyncio.create_task(self._ask(), name="headrace live page")
        try:
            async for part in self._sent():
                yield part
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    def _with_head(self, response: HttpResponse) -> HttpResponse:
        for name, value in self._start["headers"]:
            if name.lower() == b"set-cookie":
                response.cookies.update(SimpleCookie(value.decode("latin-1")))
            else:
                response[name.decode("latin-1")] = value.decode("latin-1")
        return response

    async def _ask(self) -> None:
        try:
            await self._application(self._scope, self._receive, self._send)
        finally:
            self._parts.put_nowait(None)

    async def _sent(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            yield part

    async def _receive(self) -> Message:
        if self._body is None:
            await asyncio.Event().wait()  # Django ends the exchange when the visitor has gone
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message.get("body"):
            self._parts.put_nowait(message["body"])


def live_response(exchange: Exchange) -> StreamingHttpResponse:
    """An answer that goes on: server-sent events."""
    response = StreamingHttpResponse(exchange.stream(), content_type="text/event-stream")
    response["cache-control"] = "no-store"
    response["x-accel-buffering"] = "no"
    return response
