"""Settles deliveries when their handlers request it, each at most once."""

from __future__ import annotations

import asyncio

from headrace.core.errors import AlreadySettled, AppClosed
from headrace.core.messages.claim import Claim
from headrace.core.messages.outcome import DONE, Done
from headrace.engine.running.finished import FinishedRun
from headrace.engine.running.outcome_policy import OutcomePolicy
from headrace.engine.running.run import Run

from .in_flight import InFlight


class ManualAcks:
    """The acknowledgements that handlers make themselves. It belongs to a worker and its event loop."""

    def __init__(self, policy: OutcomePolicy, in_flight: InFlight) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._policy = policy
        self._in_flight = in_flight
        self._waiting: dict[Claim, asyncio.Future[None]] = {}
        self._decided: set[Claim] = set()  # settled by handlers that still run
        self._closed = False

    async def settle(self, run: Run, error: Exception | None) -> None:
        """Write that the delivery is done, or that it ended as if its handler had raised `error`."""
        if self._closed:
            raise AppClosed(f"event {run.id} of {run.topic} cannot be settled: its worker has stopped")
        if run.settled:
            raise AlreadySettled(f"event {run.id} of {run.topic} is settled: a delivery is settled once")
        run.settled = True
        outcome, failure = (DONE, None) if error is None else self._policy.raised(run, error)
        if not run.ended:
            self._decided.add(run.claim)
        written = self._waiting[run.claim] = self.loop.create_future()
        self._in_flight.write(
            [FinishedRun(run.claim, outcome, task=run.task, failure=failure, late=run.ended)]
        )
        await asyncio.shield(written)

    def took(self, claim: Claim) -> bool:
        """Whether the handler, which has now ended, settled the claim itself."""
        if claim in self._decided:
            self._decided.discard(claim)
            return True
        return False

    def awaits(self, claim: Claim) -> bool:
        """Whether the store has not answered yet."""
        return claim in self._waiting

    def written(self, claim: Claim) -> bool:
        """The store has answered. Returns whether the handler has ended, too."""
        waiting = self._waiting.pop(claim, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        return claim not in self._decided

    def close(self) -> None:
        """Nothing is written any more. Callers that wait, and later callers, get `AppClosed`."""
        self._closed = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(AppClosed("the worker has stopped before the event was settled"))
                waiting.exception()  # retrieved, so that asyncio does not warn when no caller waits
        self._waiting.clear()


def left_open(finished: FinishedRun) -> bool:
    """Whether a handler that should have settled the delivery returned without settling it."""
    return isinstance(finished.outcome, Done)
