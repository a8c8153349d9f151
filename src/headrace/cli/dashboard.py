"""`headrace dashboard`: the page that shows what is going on."""

from __future__ import annotations

import asyncio
import ipaddress

import click

from headrace.app import App
from headrace.core.errors import ConfigurationError
from headrace.dashboard import asgi

from .loop import loop_factory
from .store import on_store


@click.command()
@on_store
@click.option(
    "--host", envvar="HEADRACE_DASHBOARD_HOST", default="127.0.0.1", show_default=True, metavar="ADDRESS"
)
@click.option(
    "--port",
    envvar="HEADRACE_DASHBOARD_PORT",
    type=click.IntRange(0, 65_535),
    default=8400,
    show_default=True,
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
    if password is None and not _is_this_machine(host):
        raise ConfigurationError(
            f"{host} can be reached from other machines: set a password first, best in the environment as "
            "HEADRACE_DASHBOARD_PASSWORD"
        )
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise ConfigurationError("the dashboard needs uvicorn: pip install 'headrace[dashboard]'") from error
    config = uvicorn.Config(
        asgi(app, password=password, read_only=read_only),
        host=host,
        port=port,
        log_level="warning",
        # Live pages never end by themselves.
        timeout_graceful_shutdown=1,
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(app, uvicorn.Server(config), f"http://{host}:{port}/"))


async def _serve(app: App, server: object, address: str) -> None:
    async with app:
        click.echo(f"{app.store} at {address} (Ctrl-C ends it)")
        await server.serve()  # type: ignore[attr-defined]


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
