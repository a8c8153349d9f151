"""Who may look, and who may change: loopback only, or a login; changes only from our own pages."""

from __future__ import annotations

import base64
import binascii
import inspect
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

#: What is answered to everybody, since it tells nothing; where there are logins, also the form for them.
STATIC: Final = ("/static/style.css", "/static/script.js", "/static/icon.svg")
LOGIN: Final = "/login"

#: Where a program, which fills in no form, may give the password as basic authentication.
METRICS: Final = "/metrics"

#: Headers by which a proxy tells of itself: who asks is then not who speaks to us.
PROXIED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")

LOCAL_ONLY: Final = (
    "This dashboard has no login and answers this machine only. Give it a password (headrace dashboard "
    "--password, or HEADRACE_DASHBOARD_PASSWORD), or authenticate= where it is mounted."
)


class Access:
    """ASGI middleware: lets in who may come, and nobody change anything from another site."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        sessions: Sessions | None,
        authenticate: Authenticate | None,
        read_only: bool,
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._authenticate = authenticate
        self._read_only = read_only
        self._open = STATIC if sessions is None else (*STATIC, LOGIN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = await self._refusal(request)
        await (answer or self._app)(scope, receive, _with_headers(send))

    async def _refusal(self, request: Request) -> Response | None:
        path = path_of(request)
        if path not in self._open:
            refusal = await self._unknown(request)
            if refusal is not None:
                return refusal
        return None if request.method in ("GET", "HEAD") else self._no_change(request, path)

    def _no_change(self, request: Request, path: str) -> Response | None:
        if not _from_our_pages(request):
            return PlainTextResponse("This change did not come from the dashboard's own page.", 403)
        if self._read_only and path not in (LOGIN, "/logout"):
            return PlainTextResponse("This dashboard is read-only.", 403)
        return None

    async def _unknown(self, request: Request) -> Response | None:
        if self._authenticate is not None:
            allowed = self._authenticate(request)
            if inspect.isawaitable(allowed):
                allowed = await allowed
            # Nothing but True: a hook that gives back a user, or None, or forgot to, has not said yes.
            return None if allowed is True else PlainTextResponse("You may not see this page.", 403)
        if self._sessions is not None:
            return self._not_logged_in(request, self._sessions)
        return None if _is_local(request) else PlainTextResponse(LOCAL_ONLY, 403)

    def _not_logged_in(self, request: Request, sessions: Sessions) -> Response | None:
        if sessions.holds(request.cookies.get(COOKIE)):
            return None
        if path_of(request) == METRICS:
            password = _basic_password(request)
            if password and sessions.accepts(password):
                return None
            return PlainTextResponse("A password is needed.", 401, {"www-authenticate": "Basic"})
        return RedirectResponse(f"{root_of(request)}{LOGIN}", 303)


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


def _is_local(request: Request) -> bool:
    """From this machine, to this machine (another name is DNS rebinding), through no proxy."""
    if any(name in request.headers for name in PROXIED):
        return False
    host = _host_name(request.headers.get("host", ""))
    client = request.client.host if request.client else ""
    return _is_loopback(client) and (host == "localhost" or host.endswith(".localhost") or _is_loopback(host))


def _host_name(header: str) -> str:
    try:
        parts = urlsplit(f"//{header}")
        return (parts.hostname or "") if parts.netloc == header else ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message["headers"], *(pair for pair in ours if pair[0] not in names)]
        await send(message)

    return sending
