"""A port for probes and scrapers: a very small HTTP server, so that they need no framework.

It answers GET and HEAD on a few paths, one request for each connection. The bytes and seconds of a request
and the number of connections are limited. When all connections are taken, a new one replaces one that sends
nothing, so that silent clients do not lock out a probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

import msgspec

from headrace.core.errors import ConfigurationError

from .connections import Connections

#: Bytes of a request, seconds that it may take, and connections at a time.
MOST_BYTES = 8 * 1024
MOST_SECONDS = 10.0
MOST_CONNECTIONS = 50

TEXT = "text/plain; charset=utf-8"


class PortAnswer(msgspec.Struct, frozen=True):
    body: bytes
    status: int = 200
    content_type: str = TEXT


#: The request's headers, in lower case → the answer.
Route = Callable[[Mapping[str, str]], Awaitable[PortAnswer]]

#: The request's `Host` header → whether it is one of our names.
HostCheck = Callable[[str], bool]


def text(body: str, status: int = 200) -> PortAnswer:
    return PortAnswer(f"{body}\n".encode(), status)


class Port:
    """Use it with `async with`. Port 0 takes any free port; `port` says which."""

    def __init__(
        self, host: str, port: int, routes: Mapping[str, Route], *, is_ours: HostCheck | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._routes = routes
        self._is_ours = is_ours
        self._connections = Connections(MOST_CONNECTIONS)
        self._conversations: set[asyncio.Task[None] | None] = set()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Port:
        try:
            self._server = await asyncio.start_server(
                self._serve, self.host or None, self.port, limit=MOST_BYTES
            )
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"cannot listen on {self.host or 'all addresses'}, port {self.port}: {error}; give another "
                "--metrics-port, or end what uses it"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        # Not `wait_closed`: since Python 3.12 it waits for connections too, and a probe may hold one open.
        self._server.close()
        talking = {task for task in self._conversations if task is not None}
        for task in talking:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._conversations.add(task)
        self._connections.open(writer.transport)
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await self._converse(reader, writer)
        except (TimeoutError, OSError):
            writer.transport.abort()  # the client is slow or gone, and does not read the rest
        except asyncio.CancelledError:
            pass  # otherwise asyncio's streams log it as an error
        finally:
            self._conversations.discard(task)
            self._connections.close(writer.transport)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            answer, method = text("the request is too long", 431), "GET"
        else:
            self._connections.works(writer.transport)
            method, _, rest = head.decode("latin-1").partition(" ")
            target, _, headers = rest.partition(" ")
            answer = await self._answer(method, target.partition("?")[0], _headers(headers))
        self._connections.waits(writer.transport)
        writer.write(_response(answer, method))
        await writer.drain()

    async def _answer(self, method: str, path: str, headers: Mapping[str, str]) -> PortAnswer:
        if method not in ("GET", "HEAD"):
            return text("only GET", 405)
        host = headers.get("host", "")
        # A browser always sends the name, so a page of another site that resolves to our address is refused.
        if host and self._is_ours is not None and not self._is_ours(host):
            return text("this port does not answer to that name: add it with --metrics-names", 403)
        route = self._routes.get(path)
        if route is None:
            return text(f"there is only {', '.join(self._routes)}", 404)
        try:
            return await route(headers)
        except Exception as error:
            return text(f"{type(error).__name__}: {error}", 500)


def _headers(lines: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines.split("\r\n")[1:] if ":" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _response(answer: PortAnswer, method: str) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if method == "HEAD" else answer.body)
