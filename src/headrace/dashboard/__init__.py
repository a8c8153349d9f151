"""The dashboard: an ASGI application that shows and controls what `app.admin` and `app.schedules` know.

Mount it where you like, `Mount("/jobs", headrace.dashboard.asgi(app))`, or run `headrace dashboard`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.hosts import LOOPBACK

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from headrace.app import App
    from headrace.dashboard.access.access import Authenticate

__all__ = ["asgi"]


def asgi(
    app: App,
    *,
    password: str | None = None,
    secret: str | None = None,
    authenticate: Authenticate | None = None,
    read_only: bool = False,
    trusted_proxies: Iterable[str] = LOOPBACK,
    live: bool = True,
) -> Starlette:
    """The dashboard of an app as an ASGI application.

    Without `password` and `authenticate` it answers only requests from this machine. `authenticate` is for an
    application with a login of its own: a function of the request, plain or async. It returns True for a
    visitor who may see and change things. It is called again about once a second for each open live page.
    With `read_only` nothing can be changed.

    A session is valid in the process that began it, or in all processes with the same `secret` (default:
    `HEADRACE_DASHBOARD_SECRET`). `trusted_proxies`: addresses and networks of proxies whose
    `X-Forwarded-For` and `X-Forwarded-Proto` headers count. Without `live`, pages do not update themselves:
    for servers that cannot hold a connection for each open page.
    """
    if password is not None and not password:
        raise ConfigurationError("the dashboard's password is empty: give one, or omit it")
    if password is not None and authenticate is not None:
        raise ConfigurationError("give password= or authenticate=, not both")
    try:
        from .application import dashboard
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "jinja2"):
            raise
        raise ConfigurationError(
            f"the dashboard needs {error.name}: pip install 'headrace[dashboard]'"
        ) from error
    options: dict[str, Any] = {
        "password": password,
        "secret": secret or os.environ.get("HEADRACE_DASHBOARD_SECRET"),
        "authenticate": authenticate,
        "read_only": read_only,
        "trusted_proxies": trusted_proxies,
        "live": live,
    }
    return dashboard(app, **options)
