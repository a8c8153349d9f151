"""Renews leases from a thread of its own, so that no busy event loop and no blocking handler loses one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from headrace.core.backend import Renewal, Renewer
from headrace.core.claim import Claim
from headrace.core.daemon_thread import in_daemon_thread
from headrace.core.errors import HeadraceError
from headrace.core.signals import BackendError

from .emitter import Emitter
from .holdings import Holdings
from .service import backoff

#: A lease is renewed this many times before it would run out.
BEATS = 5

#: Claims renewed in one step of the store.
BATCH = 500


class Keeper:
    """While the store cannot be reached nothing is assumed lost; the keeper only tries again."""

    def __init__(
        self,
        renewer: Renewer,
        *,
        holdings: Holdings,
        lease: float,
        emitter: Emitter,
        report: Callable[[list[tuple[Claim, Renewal]]], None],
    ) -> None:
        self.renewed = 0  # leases, so far
        self._renewer = renewer
        self._holdings = holdings
        self._interval = lease / BEATS
        self._emitter = emitter
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self._urgent = False  # renew also what is not due yet
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Renew no more. Call it when everything that was held is settled or given up."""
        self._stopping = True
        self._woken.set()
        await in_daemon_thread(self._thread.join)

    def follow(self, lease: float) -> None:
        """The lease has become another: renew all that is held now, and go on at its pace."""
        self._interval = lease / BEATS
        self._urgent = True
        self._woken.set()

    def _run(self) -> None:
        failures = 0
        pause = self._interval
        while self._rest(pause):
            try:
                self._renew()
            except Exception as error:
                failures += 1
                pause = min(self._interval, backoff(failures))
                self._complain(error, pause)
            else:
                failures = 0
                pause = self._interval
        self._renewer.close()

    def _rest(self, pause: float) -> bool:
        """Until the next round is due or somebody wakes the thread; False: there is none."""
        self._woken.wait(pause)
        self._woken.clear()
        return not self._stopping

    def _renew(self) -> None:
        urgent = self._urgent
        claims = self._holdings.older_than(0.0 if urgent else self._interval)
        for start in range(0, len(claims), BATCH):
            batch = claims[start : start + BATCH]
            answers = zip(batch, self._renewer.renew(batch), strict=True)
            self.renewed += len(batch)
            notable = [(claim, renewal) for claim, renewal in answers if renewal is not Renewal.KEPT]
            if notable:
                self._on_loop(self._report, notable)
        if urgent:
            self._urgent = False

    def _complain(self, error: Exception, delay: float) -> None:
        text = str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        self._on_loop(self._emitter.emit, BackendError(service="keeper", error=text, delay=delay))

    def _on_loop(self, function: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            self._stopping = True  # the loop is closed: there is nobody left to hold anything for
