"""For Flask: an extension that gives a site its app, and gives each job the application context of the site.

from headrace.flask import Headrace

app = App("redis://localhost:6379/0")
headrace = Headrace(app)

def create_app() -> Flask:
    site = Flask(__name__)
    headrace.init_app(site)
    return site
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from headrace.app import App
from headrace.core.errors import ConfigurationError
from headrace.engine.declared.registry import CallNext
from headrace.engine.running.run import Run

try:
    from flask import Flask, current_app
except ModuleNotFoundError as error:
    if error.name != "flask":
        raise
    raise ConfigurationError("headrace.flask needs flask: pip install 'headrace[flask]'") from error

__all__ = ["Headrace", "site_app"]

#: Where `Flask.extensions` has the app.
EXTENSION: Final = "headrace"


class Headrace:
    """The extension. Jobs and events that a worker of the app runs have the application context of the site.

    - `app`: the app
    - `site`: the site. None: `init_app` gives it later, in a factory
    """

    def __init__(self, app: App, site: Flask | None = None) -> None:
        self.app = app
        self._site: Flask | None = None
        if site is not None:
            self.init_app(site)

    def __repr__(self) -> str:
        return f"<Headrace for Flask, {self.app!r}>"

    def init_app(self, site: Flask) -> None:
        """Give `site` the app. With several sites in one process, jobs have the context of the last one.

        - `site`: the site that the factory has made
        """
        site.extensions[EXTENSION] = self.app
        if self._site is None:
            self.app.use(self._in_context)
        self._site = site

    async def _in_context(self, run: Run, call_next: CallNext) -> object:
        """The middleware around every run. A child process makes no site, so it has no context."""
        assert self._site is not None
        if run.handler.run_in == "process":
            return await call_next(run)
        if run.handler.run_in == "thread":
            # The context ends in the thread of the job: what it closes there may belong to that thread.
            function = partial(in_context, self._site, run.handler.function)
            run.handler = msgspec.structs.replace(run.handler, function=function)
            return await call_next(run)
        with self._site.app_context():
            return await call_next(run)


def in_context(site: Flask, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in the application context of a site."""
    with site.app_context():
        return function(*args, **kwargs)


def site_app() -> App:
    """The app of the current site, for code that does not import it."""
    app: App | None = current_app.extensions.get(EXTENSION)
    if app is None:
        raise ConfigurationError(
            "the site has no headrace app: call init_app of headrace.flask.Headrace in its factory"
        )
    return app
