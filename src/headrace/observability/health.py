"""Whether a worker is alive and ready: the answers of `/healthz` and `/readyz`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from headrace.core.records.record import QUIET_SECONDS
from headrace.core.signals import Signal, WorkerStarted, WorkerStopping

from .port import PortAnswer

#: Seconds that the store has to answer, and seconds for which an answer is valid.
TIMEOUT = 3.0
FRESH = 1.0


class PollingWorker(Protocol):
    """The part of a worker that probes need."""

    @property
    def id(self) -> str: ...
    @property
    def last_poll(self) -> float: ...


class ProbeResult(msgspec.Struct, frozen=True):
    """The status of a worker, and the reason."""

    status: str
    reason: str = ""
    last_poll_seconds: float | None = None


class Health:
    """Listens to the worker's signals, so that it knows whether the worker starts, runs or stops.

    `ask` is any call to the store. Times are on this machine's clock, as `last_poll` is.
    """

    def __init__(
        self,
        worker: PollingWorker,
        *,
        ask: Callable[[], Awaitable[object]],
        quiet: float = QUIET_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._worker = worker
        self._ask = ask
        self._quiet = quiet
        self._now = now
        self._state = "starting"
        self._started_at = 0.0
        self._answered_at = float("-inf")

    def on_signal(self, signal: Signal) -> None:
        """For `WorkerStarted` and `WorkerStopping`."""
        match signal:
            case WorkerStarted(worker=self._worker.id):
                self._state, self._started_at = "running", self._now()
            case WorkerStopping(worker=self._worker.id):
                self._state = "stopping"

    def alive(self) -> ProbeResult:
        """A worker that starts or stops does not poll, and is alive."""
        if self._state != "running":
            return ProbeResult("ok", self._state)
        polled = self._worker.last_poll
        since = max(0.0, self._now() - max(polled, self._started_at))
        if since > self._quiet:
            return ProbeResult("failing", f"no successful poll for {since:.0f} s", round(since, 3))
        return ProbeResult("ok", last_poll_seconds=round(since, 3))

    async def ready(self) -> ProbeResult:
        """Whether the worker has started, is not stopping, and the store answers."""
        if self._state != "running":
            return ProbeResult("failing", f"the worker is {self._state}")
        error = await self._store_error()
        return ProbeResult("failing", f"the store does not answer: {error}") if error else ProbeResult("ok")

    async def healthz(self, headers: Mapping[str, str]) -> PortAnswer:
        return _answer(self.alive())

    async def readyz(self, headers: Mapping[str, str]) -> PortAnswer:
        return _answer(await self.ready())

    async def _store_error(self) -> str:
        if time.monotonic() - self._answered_at < FRESH:
            return ""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._ask()
        except TimeoutError:
            return f"nothing within {TIMEOUT:g} s"
        except Exception as error:
            return str(error) or type(error).__name__
        self._answered_at = time.monotonic()
        return ""


def _answer(result: ProbeResult) -> PortAnswer:
    facts = {name: value for name, value in msgspec.structs.asdict(result).items() if value not in ("", None)}
    status = 200 if result.status == "ok" else 503
    return PortAnswer(msgspec.json.encode(facts) + b"\n", status, "application/json")
