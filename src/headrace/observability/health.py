"""Whether a worker lives, and whether it is ready: what `/healthz` and `/readyz` answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from headrace.core.signals import Signal, WorkerStarted, WorkerStopping

from .port import Answer

#: Seconds without a successful poll after which a worker is taken for dead.
QUIET = 30.0

#: Seconds that the store has to answer, and for which an answer holds.
PATIENCE = 3.0
FRESH = 1.0


class Polling(Protocol):
    """What is asked of a worker."""

    @property
    def id(self) -> str: ...
    @property
    def last_poll(self) -> float: ...


class Verdict(msgspec.Struct, frozen=True):
    """What is answered, and why."""

    status: str
    reason: str = ""
    last_poll_seconds: float | None = None


class Health:
    """Listens to the worker's signals, so that it knows whether it has started and not yet begun to stop.

    `ask` is any question to the store. Times are on the machine's clock, as `last_poll` is.
    """

    def __init__(
        self,
        worker: Polling,
        *,
        ask: Callable[[], Awaitable[object]],
        quiet: float = QUIET,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._worker = worker
        self._ask = ask
        self._quiet = quiet
        self._now = now
        self._state = "starting"
        self._started_at = 0.0
        self._answered_at = float("-inf")

    def heed(self, signal: Signal) -> None:
        """For `WorkerStarted` and `WorkerStopping`."""
        match signal:
            case WorkerStarted(worker=self._worker.id):
                self._state, self._started_at = "running", self._now()
            case WorkerStopping(worker=self._worker.id):
                self._state = "stopping"

    def alive(self) -> Verdict:
        """While it starts and while it stops a worker does not poll, and that is no reason to end it."""
        if self._state != "running":
            return Verdict("ok", self._state)
        polled = self._worker.last_poll
        since = max(0.0, self._now() - max(polled, self._started_at))
        if since > self._quiet:
            return Verdict("failing", f"no successful poll for {since:.0f} s", round(since, 3))
        return Verdict("ok", last_poll_seconds=round(since, 3))

    async def ready(self) -> Verdict:
        """Whether the worker has started, is not stopping, and the store answers."""
        if self._state != "running":
            return Verdict("failing", f"the worker is {self._state}")
        trouble = await self._trouble()
        return Verdict("failing", f"the store does not answer: {trouble}") if trouble else Verdict("ok")

    async def healthz(self, headers: Mapping[str, str]) -> Answer:
        return _answer(self.alive())

    async def readyz(self, headers: Mapping[str, str]) -> Answer:
        return _answer(await self.ready())

    async def _trouble(self) -> str:
        if time.monotonic() - self._answered_at < FRESH:
            return ""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._ask()
        except TimeoutError:
            return f"nothing within {PATIENCE:g} s"
        except Exception as error:
            return str(error) or type(error).__name__
        self._answered_at = time.monotonic()
        return ""


def _answer(verdict: Verdict) -> Answer:
    facts = {
        name: value for name, value in msgspec.structs.asdict(verdict).items() if value not in ("", None)
    }
    status = 200 if verdict.status == "ok" else 503
    return Answer(msgspec.json.encode(facts) + b"\n", status, "application/json")
