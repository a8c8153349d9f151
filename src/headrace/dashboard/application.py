"""The ASGI application: pages, actions, the live stream and the login, behind the access checks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from headrace.admin.looking.doctor import RecentFindings
from headrace.app import App
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.dashboard.access.access import LOGIN, METRICS, Access, AccessMiddleware, Authenticate
from headrace.dashboard.access.proxies import TrustedProxies
from headrace.dashboard.access.sessions import Sessions
from headrace.dashboard.actions.actions import act

from .access import login
from .live import LivePages
from .live import live as live_page
from .pages import dead, job, limits, overview, queue, schedules, topics, workers
from .site import Content, PageFunction, Site

HERE: Final = Path(__file__).parent

PAGES: Final[dict[str, PageFunction]] = {
    "/": overview.page,
    "/queues/{queue}": queue.queue_page,
    "/topics/{topic}/{group}": queue.group_page,
    "/job": job.page,
    "/dead": dead.page,
    "/limits": limits.list_page,
    "/limit": limits.limit_page,
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
    live: bool,
) -> Starlette:
    sessions = Sessions(password, secret) if password else None
    access = Access(sessions=sessions, authenticate=authenticate, read_only=read_only)
    proxies = TrustedProxies(trusted_proxies)
    site = Site(app, HERE / "templates", read_only=read_only, has_login=sessions is not None, live=live)
    site.pages.update(PAGES)
    application = Starlette(
        routes=[
            *(Route(path, site.shown(page), methods=["GET"]) for path, page in PAGES.items()),
            Route("/live", live_page, methods=["GET"]),
            Route(METRICS, _metrics, methods=["GET"]),
            Route("/actions/{verb}", act, methods=["POST"]),
            Route("/static/{name}", _static, methods=["GET"]),
            *(_login_routes() if sessions else ()),
        ],
        middleware=[Middleware(AccessMiddleware, access=access, proxies=proxies)],
        exception_handlers={404: _not_found},
    )
    application.state.site = site
    application.state.access = access
    application.state.sessions = sessions
    application.state.live_pages = LivePages()
    application.state.store_findings = RecentFindings(app.admin.doctor)
    return application


def _login_routes() -> list[Route]:
    return [
        Route(LOGIN, login.form, methods=["GET"]),
        Route(LOGIN, login.log_in, methods=["POST"]),
        Route("/logout", login.log_out, methods=["POST"]),
    ]


async def _metrics(request: Request) -> Response:
    """For Prometheus: the counts in the store, and what this process measures."""
    site: Site = request.app.state.site
    try:
        # Imported only now, because it needs an extra.
        from headrace.observability.prometheus import exposed
    except ConfigurationError as error:
        return PlainTextResponse(str(error), 404)
    try:
        body, content_type = await exposed(site.app).render(request.headers.get("accept", ""))
    except BackendUnavailable as error:
        return PlainTextResponse(f"store unavailable: {error}", 503)
    return Response(body, headers={"content-type": content_type})


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    kind = STATIC.get(name)
    if kind is None:
        return await _not_found(request, LookupError())
    # The browser asks each time whether it has changed, so that a new version shows at once.
    return FileResponse(HERE / "static" / name, media_type=kind, headers={"cache-control": "no-cache"})


async def _not_found(request: Request, error: Exception) -> Response:
    site: Site = request.app.state.site
    values = {"error": "There is no such page."}
    return site.response(Content("error.html", values, "Not found", 404, live=False), request)
