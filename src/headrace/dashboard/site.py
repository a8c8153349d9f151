"""What every page has: the app it is about, the templates, and the frame around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from headrace.app import App
from headrace.core.errors import BackendUnavailable, HeadraceError

from . import text
from .access import path_of, root_of
from .plot import sparkline

#: The sections of the dashboard, with their places.
SECTIONS = (
    ("Overview", "/"),
    ("Dead letters", "/dead"),
    ("Schedules", "/schedules"),
    ("Topics", "/topics"),
    ("Workers", "/workers"),
)


class Content(msgspec.Struct, frozen=True):
    """What a page shows: a template and its values, and a status."""

    template: str
    values: Mapping[str, Any] = {}
    title: str = ""
    status: int = 200


#: A page: from a request to what it shows.
Page = Callable[[App, Request], Awaitable[Content]]


class Site:
    def __init__(self, app: App, templates: Path, *, read_only: bool, has_login: bool) -> None:
        self.app = app
        self.read_only = read_only
        self.pages: dict[str, Page] = {}
        self._has_login = has_login
        self._environment = Environment(
            loader=FileSystemLoader(templates),
            autoescape=select_autoescape(default=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "clean": text.clean,
            "brief": text.brief,
            "data": text.data,
            "exact": text.exact,
            "number": text.number,
            "span": text.span,
            "sparkline": sparkline,
        }
        # As globals, since a live part is rendered by itself, where a template's own imports are not seen.
        macros = self._environment.get_template("macros.html").module
        self._environment.globals |= {name: getattr(macros, name) for name in ("time", "badge", "button")}

    def shown(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        """The whole page as an endpoint."""

        async def show(request: Request) -> Response:
            content = await self.content(page, request)
            html = self._environment.get_template(content.template).render(self._frame(content, request))
            return HTMLResponse(html, content.status)

        return show

    async def content(self, page: Page, request: Request) -> Content:
        """What the page shows now; a store that cannot be asked is shown as such."""
        try:
            return await page(self.app, request)
        except BackendUnavailable as error:
            return Content("away.html", {"error": str(error)}, "The store is away", 503)
        except HeadraceError as error:
            return Content("wrong.html", {"error": str(error)}, "That cannot be shown", 400)

    def live_part(self, content: Content, request: Request) -> str:
        """The part of a page that changes by itself."""
        template = self._environment.get_template(content.template)
        context = template.new_context(self._frame(content, request))
        return "".join(template.blocks["live"](context))

    def _frame(self, content: Content, request: Request) -> dict[str, Any]:
        now = datetime.now(UTC)
        return {
            "title": content.title,
            "sections": SECTIONS,
            "here": path_of(request),
            "root": root_of(request),
            "address": _address(request),
            "said": text.brief(request.query_params.get("said", "")),
            "store": self.app.store,
            "read_only": self.read_only,
            "has_login": self._has_login,
            "now": now,
            "ago": lambda moment: text.ago(moment, now),
            **content.values,
        }


def _address(request: Request) -> str:
    """This page with its query, below the root, and without what was said last."""
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name != "said"]
    query = str(request.url.replace(query="").include_query_params(**dict(pairs)).query) if pairs else ""
    return path_of(request) + (f"?{query}" if query else "")
