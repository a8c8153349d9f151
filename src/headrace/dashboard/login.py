"""The password page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .access import COOKIE, SESSION, Sessions, root_of
from .forms import fields_of
from .site import Content, Site


async def form(request: Request) -> Response:
    site: Site = request.app.state.site

    async def page(app: object, request: Request) -> Content:
        wrong = request.query_params.get("wrong") == "1"
        return Content("login.html", {"wrong": wrong}, "Log in", 401 if wrong else 200)

    return await site.shown(page)(request)


async def enter(request: Request) -> Response:
    sessions: Sessions | None = request.app.state.sessions
    root = root_of(request)
    if sessions is None:
        return RedirectResponse(f"{root}/", 303)
    fields = await fields_of(request)
    if not sessions.accepts(fields.get("password", "")):
        return RedirectResponse(f"{root}/login?wrong=1", 303)
    response = RedirectResponse(f"{root}/", 303)
    response.set_cookie(
        COOKIE,
        sessions.begin(),
        max_age=SESSION,
        path=root or "/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


async def leave(request: Request) -> Response:
    root = root_of(request)
    response = RedirectResponse(f"{root}/login", 303)
    response.delete_cookie(COOKIE, path=root or "/")
    return response
