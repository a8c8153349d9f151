"""The dashboard under a URL of a Django project, for users whom Django's own permissions allow it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.urls import URLPattern, re_path
from django.views.decorators.csrf import csrf_exempt

from headrace.app import App
from headrace.dashboard import asgi

from .asgi_bridge import Exchange, live_response, scope_of
from .backend import get_app

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

#: In the scope of a request: the function that says whether its user may still see the dashboard.
MAY_SEE: Final = "headrace.may_see"

#: Seconds for which that answer holds. A live page asks about once a second.
HOLDS: Final = 5.0


class DjangoUser(Protocol):
    """A user of Django's authentication."""

    is_authenticated: bool
    is_active: bool
    is_staff: bool
    is_superuser: bool

    def has_perm(self, perm: str) -> bool: ...


def dashboard_urls(
    *, backend: str = "default", see: str | None = None, change: str | None = None
) -> list[URLPattern]:
    """The URLs of the dashboard: `path("jobs/", include(dashboard_urls()))`.

    A visitor who has not logged in is sent to `LOGIN_URL`.

    - `backend`: the alias in `TASKS`
    - `see`: the permission of users who may see it: `"shop.view_order"`. None: staff may
    - `change`: the permission of users who may also change things. None: superusers may
    """
    view = DashboardView(backend, see, change)
    return [re_path(r"^(?P<rest>.*)$", csrf_exempt(view.respond), name="headrace-dashboard")]


class DashboardView:
    """Answers requests below one URL. The dashboard itself refuses changes that other sites send."""

    def __init__(self, backend: str, see: str | None, change: str | None) -> None:
        self._backend = backend
        self._see = see
        self._change = change
        self._applications: dict[tuple[App, bool, bool], Starlette] = {}

    def respond(self, request: HttpRequest, rest: str, **_: object) -> HttpResponse:
        """The URL may capture more than `rest` where it is included."""
        user: DjangoUser | None = getattr(request, "user", None)
        if user is None:
            raise ImproperlyConfigured("The dashboard needs Django's AuthenticationMiddleware.")
        if not user.is_authenticated:
            return _login(request)
        if not self._may_see(user):
            raise PermissionDenied("You may not see the dashboard.")
        app, is_live = get_app(self._backend), isinstance(request, ASGIRequest)
        application = self._application(app, read_only=not self._may_change(user), live=is_live)
        scope = scope_of(request, request.path.removesuffix(rest).rstrip("/"))
        exchange = partial(Exchange, application, scope, request.body)
        if rest != "live":
            return app.sync._portal.run(_whole, exchange)
        if not is_live:
            return HttpResponseNotFound("Pages update themselves under ASGI only.")
        scope[MAY_SEE] = Recheck(request, self._may_see)
        close_old_connections()  # not when the page is closed: that may be hours later
        return live_response(exchange())

    def _application(self, app: App, *, read_only: bool, live: bool) -> Starlette:
        """The dashboard for these rights; pages update themselves under ASGI only."""
        known = self._applications.get((app, read_only, live))
        if known is None:
            known = asgi(app, authenticate=_still_allowed, read_only=read_only, trusted_proxies=(), live=live)
            self._applications[app, read_only, live] = known
        return known

    def _may_see(self, user: DjangoUser) -> bool:
        allowed = user.is_staff if self._see is None else user.has_perm(self._see)
        return bool(user.is_active and allowed)

    def _may_change(self, user: DjangoUser) -> bool:
        allowed = user.is_superuser if self._change is None else user.has_perm(self._change)
        return bool(user.is_active and allowed)


class Recheck:
    """Whether a user who was allowed still is: a live page goes on for hours. The session is read again, so
    that a logout ends the page."""

    def __init__(self, request: HttpRequest, may_see: Callable[[DjangoUser], bool]) -> None:
        self._request = request
        self._may_see = may_see
        self._holds_until = time.monotonic() + HOLDS

    async def __call__(self) -> bool:
        if time.monotonic() < self._holds_until:
            return True
        self._holds_until = time.monotonic() + HOLDS
        allowed: bool = await sync_to_async(self._look)()
        return allowed

    def _look(self) -> bool:
        from django.contrib.auth import get_user

        again = HttpRequest()
        engine = import_module(settings.SESSION_ENGINE)
        again.session = engine.SessionStore(self._request.session.session_key)
        try:
            user: DjangoUser = get_user(again)
            return user.is_authenticated and self._may_see(user)
        finally:
            close_old_connections()


def _still_allowed(request: Request) -> bool | Awaitable[bool]:
    """Django has decided about a page. About a live page it decides again."""
    may_see: Recheck | None = request.scope.get(MAY_SEE)
    return True if may_see is None else may_see()


async def _whole(exchange: Callable[[], Exchange]) -> HttpResponse:
    return await exchange().run()


def _login(request: HttpRequest) -> HttpResponse:
    from django.contrib.auth.views import redirect_to_login  # it needs the app registry

    return redirect_to_login(request.get_full_path())
