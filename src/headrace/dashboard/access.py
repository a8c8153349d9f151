"""Who may look, and who may change: loopback only, or a login; changes only from our own pages."""

from __future__ import annotations

import hashlib
import hmac
import inspect
import ipaddress
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: A function of the request: whether it may see the dashboard. It may be async.
Authenticate = Callable[[Request], bool | Awaitable[bool]]

COOKIE: Final = "headrace_session"

#: Seconds that a login holds.
SESSION: Final = 12 * 3600

#: Wrong passwords within a minute after which nobody may try for the rest of it.
ATTEMPTS: Final = 10

#: Nothing but our own files, no inline script or style, in no frame.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}

OPEN_PATHS: Final = ("/login", "/static/")


class Sessions:
    """Signed cookies: a time and its signature. The key comes from the password, so that every process of a
    server knows the others' cookies, and a new password ends them."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._key = hashlib.sha256(b"headrace dashboard\0" + self._password).digest()
        self._failures: list[float] = []

    def accepts(self, password: str) -> bool:
        """Whether the password is right; False too when there were too many wrong ones just now."""
        now = time.monotonic()
        self._failures = [at for at in self._failures if now - at < 60]
        if len(self._failures) >= ATTEMPTS:
            return False
        if hmac.compare_digest(password.encode(), self._password):
            return True
        self._failures.append(now)
        return False

    def begin(self) -> str:
        said = f"{int(time.time()) + SESSION}.{secrets.token_hex(8)}"
        return f"{said}.{self._sign(said)}"

    def holds(self, cookie: str | None) -> bool:
        said, _, signature = (cookie or "").rpartition(".")
        until = said.partition(".")[0]
        signed = hmac.compare_digest(signature.encode(), self._sign(said).encode())
        return signed and until.isdigit() and int(until) > time.time()

    def _sign(self, said: str) -> str:
        return hmac.new(self._key, said.encode(), hashlib.sha256).hexdigest()


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = await self._refusal(request)
        await (answer or self._app)(scope, receive, _with_headers(send))

    async def _refusal(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            if not _from_our_pages(request):
                return PlainTextResponse("This change did not come from the dashboard's own page.", 403)
            if self._read_only and path_of(request) not in ("/login", "/logout"):
                return PlainTextResponse("This dashboard is read-only.", 403)
        if path_of(request).startswith(OPEN_PATHS):
            return None
        return await self._unknown(request)

    async def _unknown(self, request: Request) -> Response | None:
        if self._authenticate is not None:
            allowed = self._authenticate(request)
            if inspect.isawaitable(allowed):
                allowed = await allowed
            return None if allowed else PlainTextResponse("You may not see this page.", 403)
        if self._sessions is not None:
            if self._sessions.holds(request.cookies.get(COOKIE)):
                return None
            return RedirectResponse(f"{root_of(request)}/login", 303)
        return None if _is_local(request) else PlainTextResponse(LOCAL_ONLY, 403)


LOCAL_ONLY: Final = (
    "This dashboard has no login and answers this machine only. Give it a password (headrace dashboard "
    "--password, or HEADRACE_DASHBOARD_PASSWORD), or authenticate= where it is mounted."
)


def path_of(request: HTTPConnection) -> str:
    """The path below the place where the dashboard is mounted."""
    return request.url.path.removeprefix(root_of(request)) or "/"


def root_of(request: HTTPConnection) -> str:
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")


def _is_local(request: Request) -> bool:
    """From this machine, to this machine (another name is DNS rebinding), through no proxy."""
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    client = request.client.host if request.client else ""
    return _is_loopback(client) and (host == "localhost" or host.endswith(".localhost") or _is_loopback(host))


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
    return urlsplit(origin).netloc == request.headers.get("host") and bool(origin)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *(
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in names
                ),
            ]
        await send(message)

    return sending
