"""The ASGI application: pages, actions, the live stream and the login, behind the access checks."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headrace.app import App

from . import actions, login
from .access import Access, Authenticate, Sessions
from .live import live
from .pages import dead, job, overview, queue, schedules, topics, workers
from .site import Site

HERE = Path(__file__).parent


def dashboard(
    app: App, *, password: str | None, authenticate: Authenticate | None, read_only: bool
) -> Starlette:
    sessions = Sessions(password) if password else None
    site = Site(app, HERE / "templates", read_only=read_only, has_login=sessions is not None)
    pages = {
        "/": overview.page,
        "/queues/{queue}": queue.page,
        "/jobs/{id}": job.page,
        "/dead": dead.page,
        "/schedules": schedules.page,
        "/topics": topics.page,
        "/workers": workers.page,
    }
    site.pages.update(pages)
    application = Starlette(
        routes=[
            *(Route(path, site.shown(page), methods=["GET"]) for path, page in pages.items()),
            Route("/live", live, methods=["GET"]),
            Route("/actions/{verb}", actions.act, methods=["POST"]),
            Route("/login", login.form, methods=["GET"]),
            Route("/login", login.enter, methods=["POST"]),
            Route("/logout", login.leave, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[
            Middleware(Access, sessions=sessions, authenticate=authenticate, read_only=read_only),
        ],
    )
    application.state.site = site
    application.state.sessions = sessions
    return application
