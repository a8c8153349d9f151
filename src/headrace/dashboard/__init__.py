"""A page that shows what is going on: an ASGI application over `app.admin` and `app.schedules`, nothing else.

Mount it where you like, `Mount("/jobs", headrace.dashboard.asgi(app))`, or run `headrace dashboard`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from headrace.app import App

    from .access import Authenticate

__all__ = ["asgi"]


def asgi(
    app: App,
    *,
    password: str | None = None,
    authenticate: Authenticate | None = None,
    read_only: bool = False,
) -> Starlette:
    """The dashboard of an app as an ASGI application.

    Without `password` and without `authenticate` only this machine is answered. `authenticate` is for a host
    that has its own login: a function of the request, plain or async, that returns True for who may look and
    change. With `read_only` nothing can be changed.
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
    options: dict[str, Any] = {"password": password, "authenticate": authenticate, "read_only": read_only}
    return dashboard(app, **options)
