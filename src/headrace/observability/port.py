"""A port for probes and scrapers: a very small HTTP server, so that they need no framework.

It answers GET and HEAD on a few paths, one request a connection. Whoever connects gets little: so many bytes
of a request, so many seconds, so many connections at a time. Where these are taken, one that keeps us waiting
makes room, so that nobody keeps a probe out by saying nothing.
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


class Answer(msgspec.Struct, frozen=True):
    body: bytes
    status: int = 200
    content_type: str = TEXT


#: The request's headers, in small letters → the answer.
Route = Callable[[Mapping[str, str]], Awaitable[Answer]]

#: The request's `Host` header → whether it is a name of ours.
HostCheck = Callable[[str], bool]


def text(body: str, status: int = 200) -> Answer:
    return Answer(f"{body}\n".encode(), status)


class Port:
    """`async with` it. Port 0: any that is free; `port` says which it became."""

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
            writer.transport.abort()  # slow, or gone: it would not read what is left to send
        except asyncio.CancelledError:
            pass  # asyncio's streams would log a conversation that ends so as an error
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

    async def _answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        if method not in ("GET", "HEAD"):
            return text("only GET", 405)
        host = headers.get("host", "")
        # Browsers always tell it. A page of another site that has our address is found out by its name.
        if host and self._is_ours is not None and not self._is_ours(host):
            return text("this port is not asked by that name: give it with --metrics-names", 403)
        route = self._routes.get(path)
        if route is None:
            return text(f"there is {', '.join(self._routes)}", 404)
        try:
            return await route(headers)
        except Exception as error:
            return text(f"{type(error).__name__}: {error}", 500)


def _headers(lines: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines.split("\r\n")[1:] if ":" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _response(answer: Answer, method: str) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if method == "HEAD" else answer.body)
