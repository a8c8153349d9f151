"""What every page has: the app it is about, the templates, and the frame around it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from headrace.app import App
from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.engine.patience import impatience

from . import text
from .access import path_of, root_of
from .place import Place, query
from .plot import plot
from .said import forget, said_before

#: The sections of the dashboard, with their places.
SECTIONS: Final = (
    ("Overview", "/"),
    ("Dead letters", "/dead"),
    ("Schedules", "/schedules"),
    ("Topics", "/topics"),
    ("Workers", "/workers"),
)

#: Seconds after which a store that has not answered is shown as away.
PATIENCE: Final = 5.0

MACROS: Final = ("time", "badge", "button", "scroll")


class Content(msgspec.Struct, frozen=True):
    """What a page shows: a template and its values. `live`: it keeps itself up to date. `away`: why the
    store could not be asked."""

    template: str
    values: Mapping[str, Any] = {}
    title: str = ""
    status: int = 200
    live: bool = True
    away: str = ""


#: A page: from a request to what it shows.
Page = Callable[[App, Request], Awaitable[Content]]


class Site:
    def __init__(self, app: App, templates: Path, *, read_only: bool, has_login: bool) -> None:
        self.app = app
        self.read_only = read_only
        self.pages: dict[str, Page] = {}
        self._has_login = has_login
        self._environment = _environment(templates)

    def shown(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        """The whole page as an endpoint."""

        async def show(request: Request) -> Response:
            return self.response(await self.content(page, request), request)

        return show

    def response(self, content: Content, request: Request) -> Response:
        frame = {**self._frame(content, request), "said": said_before(request)}
        html = self._environment.get_template(content.template).render(frame)
        response = HTMLResponse(_sendable(html), content.status)
        forget(response, request)
        return response

    async def content(self, page: Page, request: Request) -> Content:
        """What the page shows now; a store that cannot be asked is shown as such."""
        try:
            with impatience():
                async with asyncio.timeout(PATIENCE):
                    return await page(self.app, request)
        except TimeoutError:
            return _away(f"it has not answered for {PATIENCE:g} seconds")
        except BackendUnavailable as error:
            return _away(str(error))
        except HeadraceError as error:
            return Content("wrong.html", {"error": str(error)}, "That cannot be shown", 400, live=False)

    def live_part(self, content: Content, request: Request) -> str:
        """The part of a page that changes by itself."""
        template = self._environment.get_template(content.template)
        context = template.new_context(self._frame(content, request))
        return _sendable("".join(template.blocks["live"](context)))

    def _frame(self, content: Content, request: Request) -> dict[str, Any]:
        now = datetime.now(UTC)
        return {
            "title": content.title,
            "live": content.live,
            "away": content.away,
            "sections": SECTIONS,
            "here": path_of(request),
            "root": root_of(request),
            "address": _address(request),
            "said": "",
            "store": self.app.description,
            "read_only": self.read_only,
            "has_login": self._has_login,
            "now": now,
            "ago": lambda moment: text.ago(moment, now),
            **content.values,
        }


def _environment(templates: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "clean": text.clean,
        "brief": text.brief,
        "data": text.data,
        "exact": text.exact,
        "clock_time": text.clock_time,
        "tone": text.tone,
        "number": text.number,
        "counted": text.counted,
        "problem": text.problem,
        "span": text.span,
        "plot": plot,
        "query": query,
    }
    # As globals, since a live part is rendered by itself, where a template's own imports are not seen.
    macros = environment.get_template("macros.html").module
    environment.globals |= {name: getattr(macros, name) for name in MACROS}
    environment.globals |= {"share": text.share, "Place": Place}
    return environment


def _sendable(html: str) -> str:
    """Without halves of characters, which a hidden field may hold and no encoding has."""
    return html.encode(errors="replace").decode()


def _away(why: str) -> Content:
    return Content("away.html", {}, "The store is away", 503, away=text.clean(why, 1000))


def _address(request: Request) -> str:
    """This page with its query, below the root."""
    asked = urlencode(request.query_params.multi_items(), errors="replace")
    return quote(path_of(request), errors="replace") + (f"?{asked}" if asked else "")
