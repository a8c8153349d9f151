"""What is in flight in a worker: every claim, from its hand-out until its outcome is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from headrace.core.messages.claim import Claim
from headrace.core.messages.outcome import Outcome
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.running.bundle import FinishedBundle, parts_of
from headrace.engine.running.finished import FinishedRun
from headrace.engine.running.outcome_policy import OutcomePolicy

from .held_claims import HeldClaims


class InFlight:
    """A reader takes claims, a slot finishes them, the settler writes their outcomes.

    The other ways out: a claim is handed back, or its lease is lost, or the store refuses its outcome.
    """

    def __init__(self, held: HeldClaims, policy: OutcomePolicy, readers: WorkerReaders) -> None:
        self.unwritten: list[FinishedRun] = []
        self.arrived = asyncio.Event()  # wakes the settler
        self.stopping = False
        self._held = held
        self._policy = policy
        self._readers = readers
        self._all_written = asyncio.Event()
        self._all_written.set()

    def take(self, claims: list[Claim]) -> None:
        """The store has handed these out."""
        self._held.take(claims)

    def finish(self, finished: list[FinishedRun] | FinishedBundle) -> None:
        """A slot is done with some claims, or with a bundle of them."""
        for reader, ended in self._readers.split(finished if isinstance(finished, list) else finished.parts):
            outcomes = ended if reader is None else reader.ended(ended)
            if self.stopping:
                # A handler that does not end is left behind, and its claim is handed back already.
                outcomes = [each for each in outcomes if each.claim in self._held]
            self.write(outcomes)
        self._readers.room()

    def write(self, finished: list[FinishedRun]) -> None:
        """Have these outcomes written."""
        if finished and not self.unwritten:
            self._all_written.clear()
            self.arrived.set()
        self.unwritten += finished

    def hand_back(self, claims: Iterable[Claim]) -> None:
        """Other workers may have these. What only this process has is in no store, and is dropped."""
        parts = [part for claim in claims for part in parts_of(claim) if part in self._held]
        self.write([FinishedRun(part, self._handed_back(part)) for part in parts])

    def lose(self, claim: Claim) -> None:
        """The lease of a claim is gone before a handler began with it."""
        self._held.drop(claim)
        reader = self._readers.of(claim)
        if reader is not None:
            reader.lost()
            self._readers.room()

    def refuse(self, finished: FinishedRun, error: Exception) -> FinishedRun:
        """The store will never write how this ended: it goes to the dead letters instead."""
        dead = self._policy.unwritable(finished, error)
        return msgspec.structs.replace(finished, outcome=dead, failure=dead.failure)

    def _handed_back(self, claim: Claim) -> Outcome:
        run = self._held.running.get(claim)
        return self._policy.released(claim) if run is None else self._policy.left_behind(run)

    def put_last(self) -> None:
        """Write the first of the unwritten outcomes after all others."""
        self.unwritten.append(self.unwritten.pop(0))

    def nothing_to_write(self) -> None:
        """The settler has written all."""
        self._all_written.set()

    async def flushed(self, timeout: float) -> bool:
        """Wait until everything is written; False after `timeout` seconds."""
        try:
            await asyncio.wait_for(self._all_written.wait(), timeout)
        except TimeoutError:
            return False
        return True
