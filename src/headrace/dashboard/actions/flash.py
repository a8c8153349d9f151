"""A message about the last action, shown once on the next page. It is in a cookie and not in the URL, so that
a link from another site cannot put text on our pages."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from headrace.dashboard.access.access import root_of

COOKIE: Final = "headrace_flash"

#: Its length in characters, and the seconds for which it is kept.
MOST: Final = 300
LIFETIME: Final = 60


def set_flash(response: Response, request: Request, text: str) -> None:
    response.set_cookie(
        COOKIE,
        quote(text[:MOST], safe=""),
        max_age=LIFETIME,
        path=root_of(request) or "/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def flash_of(request: Request) -> str:
    return unquote(request.cookies.get(COOKIE, ""))[:MOST]


def clear_flash(response: Response, request: Request) -> None:
    if COOKIE in request.cookies:
        response.delete_cookie(COOKIE, path=root_of(request) or "/")
