"""The claims in flight in a worker, from the claim until its outcome is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from headrace.core.messages.claim import Claim
from headrace.core.messages.outcome import Outcome
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.running.batches.bundle import FinishedBundle, parts_of
from headrace.engine.running.finished import FinishedRun
from headrace.engine.running.outcome_policy import OutcomePolicy

from .death_calls import DeathCalls
from .held_claims import HeldClaims


class InFlight:
    """A reader takes claims, a slot finishes them, the settler writes their outcomes.

    A claim can also be handed back, its lease can be lost, or the store can refuse its outcome.
    """

    def __init__(
        self,
        held: HeldClaims,
        policy: OutcomePolicy,
        readers: WorkerReaders,
        deaths: DeathCalls | None = None,
    ) -> None:
        self.unwritten: list[FinishedRun] = []
        self.arrived: asyncio.Event = asyncio.Event()  # wakes the settler
        self.forwarded: asyncio.Event = asyncio.Event()  # wakes the relay: forwards are written
        self.stopping = False
        self._held = held
        self._policy = policy
        self._readers = readers
        self._deaths = deaths  # None: no queue of the app has a task for its deaths
        self._all_written = asyncio.Event()
        self._all_written.set()

    def take(self, claims: list[Claim]) -> None:
        """Hold claims that the store has given to this worker."""
        self._held.take(claims)

    def finish(self, finished: list[FinishedRun] | FinishedBundle) -> None:
        """A slot has finished some claims, or a bundle of them."""
        for reader, ended in self._readers.split(finished if isinstance(finished, list) else finished.parts):
            outcomes = ended if reader is None else reader.ended(ended)
            if self.stopping:
                # The claim of a handler that did not end in time is handed back already.
                outcomes = [each for each in outcomes if each.claim in self._held]
            self.write(outcomes)
        self._readers.room()

    def write(self, finished: list[FinishedRun]) -> None:
        """Pass these outcomes to the settler."""
        if self._deaths is not None:
            finished = [self._deaths.with_call(each) for each in finished]
        if finished and not self.unwritten:
            self._all_written.clear()
            self.arrived.set()
        self.unwritten += finished

    def hand_back(self, claims: Iterable[Claim]) -> None:
        """Hand claims back, so that other workers can take them. Claims of a fan-out are dropped: only this
        process has them."""
        parts = [part for claim in claims for part in parts_of(claim) if part in self._held]
        self.write([FinishedRun(part, self._handed_back(part)) for part in parts])

    def lose(self, claim: Claim) -> None:
        """The lease of a claim was lost before a handler began."""
        self._held.drop(claim)
        reader = self._readers.of(claim)
        if reader is not None:
            reader.lost()
            self._readers.room()

    def refuse(self, finished: FinishedRun, error: Exception) -> FinishedRun:
        """The store will never write this outcome: the message becomes a dead letter instead."""
        dead = self._policy.unwritable(finished, error)
        refused = msgspec.structs.replace(
            finished, outcome=dead, failure=dead.failure, forwards=(), record=None
        )
        # The store may have refused the call: then this death has none.
        return refused if self._deaths is None or finished.forwards else self._deaths.with_call(refused)

    def bury(self, claims: Iterable[Claim]) -> None:
        """Make dead letters of claims that have crashed too often, before a handler begins."""
        self.write([FinishedRun(claim, self._policy.crashed_too_often(claim)) for claim in claims])

    def _handed_back(self, claim: Claim) -> Outcome:
        run = self._held.running.get(claim)
        return self._policy.unstarted(claim) if run is None else self._policy.left_behind(run)

    def put_last(self) -> None:
        """Write the first of the unwritten outcomes after all others."""
        self.unwritten.append(self.unwritten.pop(0))

    def nothing_to_write(self) -> None:
        """The settler has written all outcomes."""
        self._all_written.set()

    async def flushed(self, timeout: float) -> bool:
        """Wait until everything is written; False after `timeout` seconds."""
        try:
            await asyncio.wait_for(self._all_written.wait(), timeout)
        except TimeoutError:
            return False
        return True
