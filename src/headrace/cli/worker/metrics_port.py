"""The port of `--metrics-port`: `/metrics`, `/healthz` and `/readyz`."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from headrace.app import App
from headrace.core import signals
from headrace.core.errors import ConfigurationError
from headrace.core.runtime.hosts import address_of, host_name, is_this_machine
from headrace.engine.app_loop.retrying import without_retries
from headrace.engine.worker.worker import Worker
from headrace.observability.health import Health
from headrace.observability.port import HostCheck, Port, PortAnswer, Route, text

from .supervisor import NUMBER

logger = logging.getLogger("headrace")


@asynccontextmanager
async def metrics_port(
    app: App, worker: Worker, host: str, port: int | None, names: Collection[str] = ()
) -> AsyncIterator[Port | None]:
    """Answer while the worker starts, runs and stops. None for `port`: nothing is opened. `names`: those by
    which it is asked besides its own."""
    if port is None:
        yield None
        return

    async def ask() -> None:
        with without_retries():
            await app.admin.workers()

    health = Health(worker, ask=ask)
    app.on(signals.WorkerStarted)(health.on_signal)
    app.on(signals.WorkerStopping)(health.on_signal)
    metrics, has_metrics = _metrics(app, worker)
    routes: dict[str, Route] = {
        "/metrics": metrics,
        "/healthz": health.healthz,
        "/readyz": health.readyz,
    }
    async with Port(host, _own_port(port), routes, is_ours=host_check(host, names)) as opened:
        metrics_at = f"metrics on {opened.url}/metrics, " if has_metrics else ""
        logger.info("%sprobes on %s/healthz and /readyz", metrics_at, opened.url)
        yield opened


def host_check(listening: str, names: Collection[str]) -> HostCheck:
    """By which names the port may be asked. A site that gives its own name our address, to have a browser
    read what is here (DNS rebinding), needs a name with a dot. Addresses, and names within a network, have
    none, so they are taken where the port listens to more than this machine."""
    ours = {name.lower() for name in (*names, socket.gethostname())}

    def is_ours(header: str) -> bool:
        name = host_name(header)
        if is_this_machine(name) or name in ours:
            return True
        inside = bool(name) and (address_of(name) is not None or "." not in name)
        return inside and not is_this_machine(listening)

    return is_ours


def _own_port(port: int) -> int:
    """Each of several processes has its own port: the first this one, the second the next, and so on."""
    return port + int(os.environ.get(NUMBER, 1)) - 1 if port else 0


def _metrics(app: App, worker: Worker) -> tuple[Route, bool]:
    """The answer of `/metrics`, and whether it has metrics."""
    try:
        # Imported when asked for: it needs an extra, and the probes do not.
        from headrace.observability.prometheus import exposed
    except ConfigurationError as error:
        why = str(error)
        logger.warning("there will be no /metrics: %s", why)

        async def absent(headers: Mapping[str, str]) -> PortAnswer:
            return text(why, 501)

        return absent, False
    metrics = exposed(app)
    metrics.watch(worker)

    async def render(headers: Mapping[str, str]) -> PortAnswer:
        body, content_type = await metrics.render(headers.get("accept", ""))
        return PortAnswer(body, content_type=content_type)

    return render, True
