"""A page that shows what is going on: an ASGI application over `app.admin` and `app.schedules`, nothing else.

Mount it where you like, `Mount("/jobs", headrace.dashboard.asgi(app))`, or run `headrace dashboard`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.core.errors import ConfigurationError
from headrace.core.hosts import LOOPBACK

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from headrace.app import App

    from .access import Authenticate

__all__ = ["asgi"]


def asgi(
    app: App,
    *,
    password: str | None = None,
    secret: str | None = None,
    authenticate: Authenticate | None = None,
    read_only: bool = False,
    trusted_proxies: Iterable[str] = LOOPBACK,
) -> Starlette:
    """The dashboard of an app as an ASGI application.

    Without `password` and without `authenticate` only this machine is answered. `authenticate` is for a host
    that has its own login: a function of the request, plain or async, that returns True for who may look and
    change; it is asked again about once a second for each live page that is open. With `read_only` nothing
    can be changed.

    Sessions hold for the process that began them, or for all that are given the same `secret`
    (`HEADRACE_DASHBOARD_SECRET` if it is not given). `trusted_proxies`: addresses and networks of proxies
    whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    """
    if password is not None and not password:
        raise ConfigurationError("the dashboard's password is empty: give one, or leave it out")
    if password is not None and authenticate is not None:
        raise ConfigurationError("give password= or authenticate=, not both: one of them decides")
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
    }
    return dashboard(app, **options)
