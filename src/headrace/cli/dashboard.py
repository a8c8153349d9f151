"""`headrace dashboard`: the page that shows what is going on."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from typing import TYPE_CHECKING, Any

import click

from headrace.app import App
from headrace.core.errors import ConfigurationError
from headrace.dashboard import asgi

from .loop import loop_factory
from .render import echo
from .store import on_store

if TYPE_CHECKING:
    import uvicorn


@click.command()
@on_store
@click.option(
    "--host",
    envvar="HEADRACE_DASHBOARD_HOST",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Where to listen.",
)
@click.option(
    "--port",
    envvar="HEADRACE_DASHBOARD_PORT",
    type=click.IntRange(0, 65_535),
    default=8400,
    show_default=True,
    help="0: any that is free.",
)
@click.option(
    "--password",
    envvar="HEADRACE_DASHBOARD_PASSWORD",
    metavar="TEXT",
    show_envvar=True,
    help="Ask for it; needed for any address but this machine's own.",
)
@click.option("--read-only", envvar="HEADRACE_DASHBOARD_READ_ONLY", is_flag=True, help="Change nothing.")
def dashboard(app: App, host: str, port: int, password: str | None, read_only: bool) -> None:
    """Show queues, jobs, dead letters, schedules, topics and workers in a browser.

    \b
    Examples:
      headrace dashboard shop:app
      headrace dashboard --url redis://localhost:6379/0 --port 9000
      HEADRACE_DASHBOARD_PASSWORD=… headrace dashboard shop:app --host 0.0.0.0
    """
    if not password and not _is_this_machine(host):
        raise ConfigurationError(
            f"{host} can be reached from other machines: set a password first, best in the environment as "
            "HEADRACE_DASHBOARD_PASSWORD"
        )
    page = asgi(app, password=password or None, read_only=read_only)
    server = _server(page)
    # Ctrl-C is the way to end it, and nothing to complain about.
    ended = contextlib.suppress(KeyboardInterrupt)
    with _listening(host, port) as door, ended, asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(app, server, door))


def _server(page: Any) -> uvicorn.Server:
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise ConfigurationError("the dashboard needs uvicorn: pip install 'headrace[dashboard]'") from error

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            page.state.streams.close()  # live pages never end by themselves
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        page,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    return Server(config)


async def _serve(app: App, server: uvicorn.Server, door: socket.socket) -> None:
    async with app:
        host, port = door.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        echo(f"{app.store} at http://{shown}:{port}/ (Ctrl-C ends it)")
        await server.serve(sockets=[door])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        # Behind this it names the address once more.
        why = (error.strerror or str(error)).partition(" (while ")[0]
        raise ConfigurationError(f"cannot listen at {host}, port {port}: {why}") from error


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
