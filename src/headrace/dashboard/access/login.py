"""The password page."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headrace.core.errors import ConfigurationError
from headrace.dashboard.actions.forms import fields_of
from headrace.dashboard.site import Content, Site

from .access import LOGIN, client_of, root_of
from .sessions import COOKIE, SESSION, Sessions

#: Bytes of the form. Every visitor may send one, so it is much shorter than other forms.
MOST_BYTES: Final = 16 * 1024


async def form(request: Request) -> Response:
    return _form(request, 200)


async def log_in(request: Request) -> Response:
    sessions: Sessions = request.app.state.sessions
    try:
        password = (await fields_of(request, MOST_BYTES)).get("password")
    except ConfigurationError:
        password = ""  # nosec B105 # none is set
    if not password or not sessions.accepts(password, client_of(request)):
        return _form(request, 401)
    root = root_of(request)
    response = RedirectResponse(f"{root}/", 303)
    response.set_cookie(
        COOKIE,
        sessions.begin(),
        max_age=SESSION,
        path=root or "/",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return response


async def log_out(request: Request) -> Response:
    sessions: Sessions = request.app.state.sessions
    sessions.end(request.cookies[COOKIE])  # it is there: a request without it does not get here
    root = root_of(request)
    response = RedirectResponse(f"{root}{LOGIN}", 303)
    response.delete_cookie(COOKIE, path=root or "/")
    return response


def _form(request: Request, status: int) -> Response:
    site: Site = request.app.state.site
    return site.response(
        Content("login.html", {"wrong": status != 200}, "Log in", status, live=False), request
    )
