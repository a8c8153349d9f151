"""Who may look, and who may change: loopback only, or a login; changes only from our own pages."""

from __future__ import annotations

import base64
import binascii
import inspect
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.core.hosts import host_name, is_loopback, is_this_machine

from .proxies import Proxies
from .sessions import COOKIE, Sessions

#: A function of the request: whether it may see the dashboard. It may be async.
Authenticate = Callable[[Request], bool | Awaitable[bool]]

#: Nothing but our own files, no inline script or style, in no frame.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

#: Said over TLS alone: for a year, this host is asked with TLS and not otherwise.
HSTS: Final = {"strict-transport-security": "max-age=31536000"}

#: What is answered to everybody, since it tells nothing; where there are logins, also the form for them.
STATIC: Final = ("/static/style.css", "/static/script.js", "/static/icon.svg")
LOGIN: Final = "/login"

#: Where a program, which fills in no form, may give the password as basic authentication.
METRICS: Final = "/metrics"

#: Headers by which a proxy tells of itself: who asks is then not who speaks to us.
PROXIED: Final = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)

LOCAL_ONLY: Final = (
    "This dashboard has no login and answers this machine only. Give it a password (headrace dashboard "
    "--password, or HEADRACE_DASHBOARD_PASSWORD), or authenticate= where it is mounted."
)


class Access:
    """Lets in who may come, and nobody change anything from another site."""

    def __init__(
        self, *, sessions: Sessions | None, authenticate: Authenticate | None, read_only: bool
    ) -> None:
        self._sessions = sessions
        self._authenticate = authenticate
        self._read_only = read_only
        self._open = STATIC if sessions is None else (*STATIC, LOGIN)

    async def refusal(self, request: Request) -> Response | None:
        """What is answered to a request that is refused. None: it is not."""
        path = path_of(request)
        if path not in self._open:
            refusal = await self.unknown(request)
            if refusal is not None:
                return refusal
        return None if request.method in ("GET", "HEAD") else self._no_change(request, path)

    async def unknown(self, request: Request) -> Response | None:
        """What is answered to who may not look. None: he may."""
        if self._authenticate is not None:
            allowed = self._authenticate(request)
            if inspect.isawaitable(allowed):
                allowed = await allowed
            # Nothing but True: a hook that gives back a user, or None, or forgot to, has not said yes.
            return None if allowed is True else PlainTextResponse("You may not see this page.", 403)
        if self._sessions is not None:
            return self._not_logged_in(request, self._sessions)
        return None if _is_local(request) else PlainTextResponse(LOCAL_ONLY, 403)

    def _no_change(self, request: Request, path: str) -> Response | None:
        if not _from_our_pages(request):
            return PlainTextResponse("This change did not come from the dashboard's own page.", 403)
        if self._read_only and path not in (LOGIN, "/logout"):
            return PlainTextResponse("This dashboard is read-only.", 403)
        return None

    def _not_logged_in(self, request: Request, sessions: Sessions) -> Response | None:
        cookie, address = request.cookies.get(COOKIE), client_of(request)
        if sessions.holds(cookie, address):
            return None
        if path_of(request) == METRICS:
            password = _basic_password(request)
            if password and sessions.accepts(password, address):
                return None
            return PlainTextResponse("A password is needed.", 401, {"www-authenticate": "Basic"})
        response = RedirectResponse(f"{root_of(request)}{LOGIN}", 303)
        if cookie and sessions.may_try(address):
            # So that a browser does not show it again and again, each time as a wrong try.
            response.delete_cookie(COOKIE, path=root_of(request) or "/")
        return response


class Guard:
    """ASGI middleware: access is checked before anything else, and every answer has the headers."""

    def __init__(self, app: ASGIApp, *, access: Access, proxies: Proxies) -> None:
        self._app = app
        self._access = access
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = self._proxies.resolve(scope)
        answer = await self._access.refusal(Request(scope, receive))
        await (answer or self._app)(scope, receive, _with_headers(send, scope["scheme"] == "https"))


def path_of(request: HTTPConnection) -> str:
    """The path below the place where the dashboard is mounted, as the routes see it. Not from the URL, in
    which the Host header has a say."""
    path: str = request.scope["path"]
    root = root_of(request)
    below = path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path
    return below or "/"


def root_of(request: HTTPConnection) -> str:
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")


def client_of(request: HTTPConnection) -> str:
    """The visitor's address."""
    return request.client.host if request.client else ""


def _is_local(request: Request) -> bool:
    """From this machine, to this machine (another name is DNS rebinding), through no proxy."""
    if any(name in request.headers for name in PROXIED):
        return False
    host = host_name(request.headers.get("host", ""))
    return is_loopback(client_of(request)) and is_this_machine(host)


def _from_our_pages(request: Request) -> bool:
    """By the origin that the browser tells, which no page can forge; one that tells none is refused."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("origin") or request.headers.get("referer") or ""
    try:
        return bool(origin) and urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:
        return False


def _basic_password(request: Request) -> str:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _with_headers(send: Send, secure: bool) -> Send:
    headers = HEADERS | HSTS if secure else HEADERS

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            ours = [(name.encode(), value.encode()) for name, value in headers.items()]
            message["headers"] = [*message["headers"], *(pair for pair in ours if pair[0] not in names)]
        await send(message)

    return sending
