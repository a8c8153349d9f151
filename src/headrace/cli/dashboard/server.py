"""The HTTP server of `headrace dashboard`: uvicorn, with limits for those who keep it waiting."""

from __future__ import annotations

import asyncio
from types import FrameType
from typing import ClassVar, Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from headrace.dashboard.actions.forms import MOST_SECONDS
from headrace.observability.connections import Connections

#: Connections at a time: the live pages, and about as many again and again as browsers open.
MOST_CONNECTIONS: Final = 200

#: Seconds that a client may take: to send the head of a request, to send the rest of it, to read an answer.
SECONDS: Final = {"head": 10.0, "body": MOST_SECONDS, "reading": 30.0}


class LimitedProtocol(H11Protocol):
    """Ends connections whose client lets us wait too long. More bytes bring no more time."""

    #: There is one server in a process.
    room: ClassVar = Connections(MOST_CONNECTIONS)

    _awaited = ""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.room.open(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.room.close(self.transport)
        self._stop_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look()

    def _look(self) -> None:
        awaited = self._what_is_awaited()
        if awaited == self._awaited:
            return
        self._awaited = awaited
        self._stop_timer()
        if awaited:
            self.room.waits(self.transport)
            self._timer = self.loop.call_later(SECONDS[awaited], self.transport.abort)
        else:
            self.room.works(self.transport)

    def _what_is_awaited(self) -> str:
        """What the client must do next; empty while it is the server's turn."""
        if self.flow.write_paused:
            return "reading"
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return "head"
        return "body" if cycle.more_body else ""

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class DashboardServer(uvicorn.Server):
    """Serves the dashboard until a signal comes."""

    def __init__(self, page: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                page,
                http=LimitedProtocol,
                ws="none",
                log_level="warning",
                access_log=False,
                server_header=False,
                # The dashboard has its own list of proxies that it trusts.
                proxy_headers=False,
                timeout_graceful_shutdown=3,
            )
        )
        self._page = page

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._page.state.live_pages.close()  # live pages never end by themselves
        super().handle_exit(sig, frame)
