"""Renews leases in a thread of its own, so that a busy event loop or a blocking handler loses no lease."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from headrace.core.errors import HeadraceError
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.records.answers import Renewal
from headrace.core.signals import BackendError
from headrace.core.store import LeaseKeeper
from headrace.engine.app_loop.loop_thread import LoopThread
from headrace.engine.emitter import Emitter
from headrace.engine.service import backoff
from headrace.engine.settling.held_claims import HeldClaims

from .leases import Leases
from .process_pulse import ProcessPulse

#: A lease is renewed this many times before it would run out.
BEATS = 5

#: Claims renewed in one step of the store.
BATCH = 500


class LeaseRenewal:
    """Renews the leases of all held claims. While the store cannot be reached, it assumes no lease lost and
    tries again soon. After half a lease of failures, the next successful renewal makes recovery wait for one
    lease."""

    def __init__(
        self,
        lease_keeper: LeaseKeeper,
        *,
        held: HeldClaims,
        leases: Leases,
        emitter: Emitter,
        report: Callable[[list[tuple[Claim, Renewal]]], None],
        pulse: ProcessPulse,
    ) -> None:
        self.renewed = 0  # leases, so far
        self._lease_keeper = lease_keeper
        self._held = held
        self._leases = leases
        self._interval = leases.shortest / BEATS
        self._emitter = emitter
        self._report = report
        self._pulse = pulse
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self._urgent = False  # renew also claims that are not due yet
        self._refused: dict[Stream, float] = {}  # streams whose renewals fail, and since when
        self._failures = 0  # rounds in a row in which some renewals failed
        self._woken = asyncio.Event()
        self._thread: LoopThread | None = None
        leases.on_change(self._lease_changed)

    def start(self) -> None:
        self._thread = LoopThread("headrace lease renewal")
        self._keeping = self._thread.submit(self._keep())

    async def stop(self) -> None:
        """Renew no more. Call this when all held claims are settled or given up."""
        thread = self._thread
        if thread is not None:
            self._stopping = True
            self._keeping.cancel()  # also while the store does not answer
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                thread.stop()
            await thread.ended()

    def _lease_changed(self) -> None:
        """Renew all held claims now, and go on at the pace of the new lease."""
        self._interval = self._leases.shortest / BEATS
        self._urgent = True
        if self._thread is not None and not self._stopping:
            self._thread.loop.call_soon_threadsafe(self._woken.set)

    async def _keep(self) -> None:
        try:
            due = time.monotonic() + self._interval
            pause = self._interval
            while await self._rest(pause):
                self._pulse.note()
                now = time.monotonic()
                whole = self._urgent or now >= due
                if whole:
                    due = now + self._interval
                await self._renew(whole=whole)
                pause = max(0.0, due - time.monotonic())
                if self._refused:
                    pause = min(pause, backoff(self._failures))
        finally:
            await self._lease_keeper.close()
        if not self._stopping:
            asyncio.get_running_loop().stop()  # `stop` is not called in this case

    async def _rest(self, pause: float) -> bool:
        """Wait until the next round is due, or the lease has changed; False: there is no next round."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._woken.wait()
        self._woken.clear()
        # A closed loop can settle nothing. So the leases must run out, for other workers.
        return not (self._stopping or self._loop.is_closed())

    async def _renew(self, *, whole: bool = True) -> None:
        """One round: renew all held claims, or only those whose last renewal failed."""
        urgent = self._urgent
        if urgent:
            self._urgent = False  # from here on, a change of the lease asks for another round
        claims = self._held.older_than(0.0 if urgent else self._interval)
        if not (whole or urgent):
            claims = [claim for claim in claims if claim.stream in self._refused]
        refused = await self._renew_all(claims)
        before = time.monotonic() - self._interval  # when they were last renewed, at the latest
        self._refused = {stream: self._refused.get(stream, before) for stream in refused}
        self._failures = self._failures + 1 if refused else 0
        if urgent and refused:
            self._urgent = True

    async def _renew_all(self, claims: list[Claim]) -> set[Stream]:
        """Renew these claims. Returns the streams whose renewals failed."""
        batches = self._batches(claims)
        refused: set[Stream] = set()
        while batches:
            batch, after_outage = batches[0]
            try:
                renewals = await self._lease_keeper.renew(batch, after_outage=after_outage)
            except Exception as error:
                self._announce_error(error, min(self._interval, backoff(self._failures + 1)))
                return refused.union(claim.stream for rest, _ in batches for claim in rest)
            refused |= self._handle(list(zip(batch, renewals, strict=True)))
            del batches[0]
        return refused

    def _batches(self, claims: list[Claim]) -> list[tuple[list[Claim], bool]]:
        """The claims in batches, each with whether its streams had an outage: failures for half a lease or
        more."""
        since = time.monotonic() - self._interval * BEATS / 2
        back = {stream for stream, refused_at in self._refused.items() if refused_at <= since}
        parts = {
            True: [claim for claim in claims if claim.stream in back],
            False: [claim for claim in claims if claim.stream not in back],
        }
        return [
            (part[start : start + BATCH], after_outage)
            for after_outage, part in parts.items()
            for start in range(0, len(part), BATCH)
        ]

    def _handle(self, answers: list[tuple[Claim, Renewal]]) -> set[Stream]:
        """Report lost and cancelled claims. Returns the streams that could not be reached."""
        unknown = {claim.stream for claim, renewal in answers if renewal is Renewal.UNKNOWN}
        self.renewed += sum(renewal is not Renewal.UNKNOWN for _, renewal in answers)
        notable = [
            (claim, renewal)
            for claim, renewal in answers
            if renewal is not Renewal.KEPT and renewal is not Renewal.UNKNOWN
        ]
        if notable:
            self._on_loop(self._report, notable)
        return unknown

    def _announce_error(self, error: Exception, delay: float) -> None:
        text = str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        self._on_loop(self._emitter.emit, BackendError(service="lease renewal", error=text, delay=delay))

    def _on_loop(self, function: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the worker's loop has just been closed: see `_rest`
            self._loop.call_soon_threadsafe(function, *args)
