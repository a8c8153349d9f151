"""The ASGI application: pages, actions, the live stream and the login, behind the access checks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from headrace.app import App

from . import actions, login
from .access import LOGIN, METRICS, Access, Authenticate, Guard
from .checkup import Checkup
from .live import Streams, live
from .metrics import metrics
from .pages import dead, job, overview, queue, schedules, topics, workers
from .proxies import Proxies
from .sessions import Sessions
from .site import Content, Page, Site

HERE: Final = Path(__file__).parent

PAGES: Final[dict[str, Page]] = {
    "/": overview.page,
    "/queues/{queue}": queue.queue_page,
    "/topics/{topic}/{group}": queue.group_page,
    "/job": job.page,
    "/dead": dead.page,
    "/schedules": schedules.page,
    "/topics": topics.page,
    "/workers": workers.page,
}

STATIC: Final = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}


def dashboard(
    app: App,
    *,
    password: str | None,
    secret: str | None,
    authenticate: Authenticate | None,
    read_only: bool,
    trusted_proxies: Iterable[str],
) -> Starlette:
    sessions = Sessions(password, secret) if password else None
    access = Access(sessions=sessions, authenticate=authenticate, read_only=read_only)
    proxies = Proxies(trusted_proxies)
    site = Site(app, HERE / "templates", read_only=read_only, has_login=sessions is not None)
    site.pages.update(PAGES)
    application = Starlette(
        routes=[
            *(Route(path, site.shown(page), methods=["GET"]) for path, page in PAGES.items()),
            Route("/live", live, methods=["GET"]),
            Route(METRICS, metrics, methods=["GET"]),
            Route("/actions/{verb}", actions.act, methods=["POST"]),
            Route("/static/{name}", _static, methods=["GET"]),
            *(_login_routes() if sessions else ()),
        ],
        middleware=[Middleware(Guard, access=access, proxies=proxies)],
        exception_handlers={404: _not_found},
    )
    application.state.site = site
    application.state.access = access
    application.state.sessions = sessions
    application.state.streams = Streams()
    application.state.checkup = Checkup(app)
    return application


def _login_routes() -> list[Route]:
    return [
        Route(LOGIN, login.form, methods=["GET"]),
        Route(LOGIN, login.enter, methods=["POST"]),
        Route("/logout", login.leave, methods=["POST"]),
    ]


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    kind = STATIC.get(name)
    if kind is None:
        return await _not_found(request, LookupError())
    # Asked for again each time, so that a new version shows at once.
    return FileResponse(HERE / "static" / name, media_type=kind, headers={"cache-control": "no-cache"})


async def _not_found(request: Request, error: Exception) -> Response:
    site: Site = request.app.state.site
    nothing = {"error": "There is no such page here."}
    return site.response(Content("wrong.html", nothing, "Not found", 404, live=False), request)
