"""What was done, shown once on the next page. In a cookie, not in the address: a link from elsewhere must not
be able to put words on our pages."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from .access import root_of

COOKIE: Final = "headrace_said"

#: Characters of it, and seconds after which it is no news any more.
MOST: Final = 300
LIFETIME: Final = 60


def say(response: Response, request: Request, text: str) -> None:
    response.set_cookie(
        COOKIE,
        quote(text[:MOST], safe=""),
        max_age=LIFETIME,
        path=root_of(request) or "/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def said_before(request: Request) -> str:
    return unquote(request.cookies.get(COOKIE, ""))[:MOST]


def forget(response: Response, request: Request) -> None:
    if COOKIE in request.cookies:
        response.delete_cookie(COOKIE, path=root_of(request) or "/")
