"""Who may see the dashboard: this machine only, or users with a login. Changes come from our pages only."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.core.runtime.hosts import host_name, is_loopback, is_this_machine

from .proxies import TrustedProxies
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

#: Sent over TLS only: for a year the browser uses nothing but TLS for this host.
HSTS: Final = {"strict-transport-security": "max-age=31536000"}

#: Served to everyone, because they say nothing about the store. With logins, the login form is, too.
STATIC: Final = ("/static/style.css", "/static/script.js", "/static/icon.svg")
LOGIN: Final = "/login"

#: A scraper fills in no form: here it may give the password as basic authentication.
METRICS: Final = "/metrics"

#: Headers that a proxy adds. With any of them the sender of the request is not our peer.
PROXIED: Final = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)

LOCAL_ONLY: Final = (
    "This dashboard has no login, so it answers only requests from this machine. Give it a password "
    "(headrace dashboard --password, or HEADRACE_DASHBOARD_PASSWORD), or authenticate= where it is mounted."
)


class Access:
    """Decides about each request. No other site can change anything."""

    def __init__(
        self, *, sessions: Sessions | None, authenticate: Authenticate | None, read_only: bool
    ) -> None:
        self._sessions = sessions
        self._authenticate = authenticate
        self._read_only = read_only
        self._open = STATIC if sessions is None else (*STATIC, LOGIN)

    async def refusal(self, request: Request) -> Response | None:
        """The answer to a request that is refused. None: the request is allowed."""
        path = path_of(request)
        if path not in self._open:
            refusal = await self.refused_visitor(request)
            if refusal is not None:
                return refusal
        return None if request.method in ("GET", "HEAD") else self._no_change(request, path)

    async def refused_visitor(self, request: Request) -> Response | None:
        """The answer to a visitor who may not see the dashboard. None: the visitor may."""
        if self._authenticate is not None:
            allowed = self._authenticate(request)
            if inspect.isawaitable(allowed):
                allowed = await allowed
            # Only True allows: a hook that returns a user object, or nothing, has not decided.
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
            # Otherwise the browser sends it again and again, and each time counts as a wrong password.
            response.delete_cookie(COOKIE, path=root_of(request) or "/")
        return response


class AccessMiddleware:
    """ASGI middleware: checks access before anything else, and adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, *, access: Access, proxies: TrustedProxies) -> None:
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
    """The path below the mount point, as the routes see it. It does not come from the URL, which the Host
    header can change."""
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
    """From this machine, to a name of this machine (another name is DNS rebinding), and through no proxy."""
    if any(name in request.headers for name in PROXIED):
        return False
    host = host_name(request.headers.get("host", ""))
    return is_loopback(client_of(request)) and is_this_machine(host)


def _from_our_pages(request: Request) -> bool:
    """By the origin that the browser sends, which no page can forge. A request without one is refused."""
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
    except ValueError:  # no ASCII, no base64 or no UTF-8
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
