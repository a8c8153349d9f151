"""`headrace dashboard`: serve the dashboard."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import click

from headrace.app import App
from headrace.cli.output.render import echo
from headrace.cli.target.option_types import setting
from headrace.cli.target.store import on_store
from headrace.cli.worker.event_loop import loop_factory
from headrace.core.errors import ConfigurationError
from headrace.core.runtime.hosts import LOOPBACK, is_loopback
from headrace.dashboard import asgi

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette


#: The prefix of the environment variables that set the options.
PREFIX = "HEADRACE_DASHBOARD"


@click.command()
@on_store
@setting("host", prefix=PREFIX, default="127.0.0.1", metavar="ADDRESS", help="Where to listen.")
@setting(
    "port",
    prefix=PREFIX,
    type=click.IntRange(0, 65_535),
    default=8400,
    metavar="PORT",
    help="0: any that is free.",
)
@setting(
    "password",
    prefix=PREFIX,
    metavar="TEXT",
    show_envvar=True,
    help="Ask for it; needed for any address but this machine's own.",
)
@setting(
    "trusted-proxies",
    prefix=PREFIX,
    default=",".join(LOOPBACK),
    metavar="ADDRESSES",
    help="Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses and networks, with "
    "commas between; '' for none.",
)
@setting("read-only", prefix=PREFIX, is_flag=True, help="Change nothing.")
def dashboard(
    app: App, host: str, port: int, password: str | None, trusted_proxies: str, read_only: bool
) -> None:
    """Serve the dashboard, to look at a store in a browser.

    Its pages show queues, jobs, dead letters, schedules, topics and workers.

    \b
    Examples:
      headrace dashboard shop:app
      headrace dashboard --url redis://localhost:6379/0 --port 9000
      HEADRACE_DASHBOARD_PASSWORD=… headrace dashboard shop:app --host 0.0.0.0
    """
    if not password and not (is_loopback(host) or host == "localhost"):
        raise ConfigurationError(
            f"{host} can be reached from other machines: set a password first, best in the environment as "
            "HEADRACE_DASHBOARD_PASSWORD"
        )
    proxies = [each for each in trusted_proxies.split(",") if each.strip()]
    page = asgi(app, password=password or None, read_only=read_only, trusted_proxies=proxies)
    server = _server(page)
    # Ctrl-C is the way to end it, and nothing to complain about.
    ended = contextlib.suppress(KeyboardInterrupt)
    with _listening(host, port) as door, ended, asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(app, server, door))


def _server(page: Starlette) -> uvicorn.Server:
    try:
        from .server import DashboardServer
    except ModuleNotFoundError as error:
        if error.name != "uvicorn":
            raise
        raise ConfigurationError("the dashboard needs uvicorn: pip install 'headrace[dashboard]'") from error
    return DashboardServer(page)


async def _serve(app: App, server: uvicorn.Server, door: socket.socket) -> None:
    async with app:
        host, port = door.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        echo(f"{app.description} at http://{shown}:{port}/ (Ctrl-C ends it)")
        await server.serve(sockets=[door])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        # Behind this it names the address once more.
        why = (error.strerror or str(error)).partition(" (while ")[0]
        raise ConfigurationError(f"cannot listen at {host}, port {port}: {why}") from error
