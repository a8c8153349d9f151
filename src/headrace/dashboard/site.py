"""What all pages share: the app, the templates and the frame around each page."""

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

from headrace.admin.looking.waiting import limit_of, waiting_text
from headrace.admin.place import Place
from headrace.app import App
from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.core.values.times import ago, span
from headrace.core.values.whole_numbers import counted
from headrace.dashboard.access.access import path_of, root_of
from headrace.dashboard.actions.flash import clear_flash, flash_of
from headrace.dashboard.pages.plot import plot
from headrace.engine.app_loop.retrying import without_retries

from . import text
from .links import dead_link, job_link, limit_link, place_link, query, waiting_link

#: The sections of the dashboard, with their paths.
SECTIONS: Final = (
    ("Overview", "/"),
    ("Dead letters", "/dead"),
    ("Limits", "/limits"),
    ("Schedules", "/schedules"),
    ("Topics", "/topics"),
    ("Workers", "/workers"),
)

#: Seconds after which a store that has not answered counts as unavailable.
STORE_TIMEOUT: Final = 5.0

MACROS: Final = ("time", "badge", "button", "scroll", "may_run", "may_start", "limit_users", "waits")


class Content(msgspec.Struct, frozen=True):
    """What a page shows: a template and its values. `live`: the page updates itself. `unavailable`: why the
    store does not answer."""

    template: str
    values: Mapping[str, Any] = {}
    title: str = ""
    status: int = 200
    live: bool = True
    unavailable: str = ""


#: A page: takes a request and answers what to show.
PageFunction = Callable[[App, Request], Awaitable[Content]]


class Site:
    def __init__(
        self, app: App, templates: Path, *, read_only: bool, has_login: bool, live: bool = True
    ) -> None:
        self.app = app
        self.read_only = read_only
        self.pages: dict[str, PageFunction] = {}
        self._has_login = has_login
        self._live = live
        self._environment = _environment(templates)

    def shown(self, page: PageFunction) -> Callable[[Request], Awaitable[Response]]:
        """The whole page as an endpoint."""

        async def show(request: Request) -> Response:
            return self.response(await self.content(page, request), request)

        return show

    def response(self, content: Content, request: Request) -> Response:
        frame = {**self._frame(content, request), "flash": flash_of(request)}
        html = self._environment.get_template(content.template).render(frame)
        response = HTMLResponse(_sendable(html), content.status)
        clear_flash(response, request)
        return response

    async def content(self, page: PageFunction, request: Request) -> Content:
        """What the page shows now. A page without a store says that the store is unavailable."""
        try:
            with without_retries():
                async with asyncio.timeout(STORE_TIMEOUT):
                    return await page(self.app, request)
        except TimeoutError:
            return _unavailable(f"it has not answered for {STORE_TIMEOUT:g} seconds")
        except BackendUnavailable as error:
            return _unavailable(str(error))
        except HeadraceError as error:
            return Content("error.html", {"error": str(error)}, "Error", 400, live=False)

    def live_part(self, content: Content, request: Request) -> str:
        """The part of a page that is updated."""
        template = self._environment.get_template(content.template)
        context = template.new_context(self._frame(content, request))
        return _sendable("".join(template.blocks["live"](context)))

    def _frame(self, content: Content, request: Request) -> dict[str, Any]:
        now = datetime.now(UTC)
        return {
            "title": content.title,
            "live": content.live and self._live,
            "unavailable": content.unavailable,
            "sections": SECTIONS,
            "here": path_of(request),
            "root": root_of(request),
            "address": _address(request),
            "flash": "",
            "store": self.app.description,
            "read_only": self.read_only,
            "has_login": self._has_login,
            "now": now,
            "ago": lambda time: ago(time, now),
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
        "counted": counted,
        "problem": text.problem,
        "span": span,
        "plot": plot,
        "query": query,
        "place_link": place_link,
        "dead_link": dead_link,
        "job_link": job_link,
        "limit_link": limit_link,
        "waiting_link": waiting_link,
        "limit_of": limit_of,
        "waiting_text": waiting_text,
    }
    environment.globals |= {"share": text.share, "Place": Place}
    # As globals, because a live part is rendered alone, without the imports of its template.
    macros = environment.get_template("macros.html").module
    environment.globals |= {name: getattr(macros, name) for name in MACROS}
    return environment


def _sendable(html: str) -> str:
    """Without lone surrogates, which a hidden field may hold and no encoding has."""
    return html.encode(errors="replace").decode()


def _unavailable(why: str) -> Content:
    return Content("unavailable.html", {}, "Store unavailable", 503, unavailable=text.clean(why, 1000))


def _address(request: Request) -> str:
    """The path of this page with its query, below the root."""
    asked = urlencode(request.query_params.multi_items(), errors="replace")
    return quote(path_of(request), errors="replace") + (f"?{asked}" if asked else "")
