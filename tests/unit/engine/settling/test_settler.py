"""Writing outcomes: what gathered goes together, and one that cannot be written harms no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace import BackendUnavailable, JobStatus, signals
from headrace.core.errors import RequestRefused
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import DONE, Settlement, Verdict
from headrace.engine.running.finished import FinishedRun
from headrace.engine.settling.settler import BATCH
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.kit.settling import Settling
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until

SOURCE = Stream("queue", "work")


class SettlerHarness:
    """A settler on a memory store whose settles can be watched, held up and made to fail."""

    def __init__(self) -> None:
        store = InterceptedStore()
        self.backend = StreamRouter(store)
        settling = Settling(self.backend)
        self.emitter, self.heard = settling.emitter, settling.heard
        self.settler, self.in_flight = settling.settler, settling.in_flight
        self.signals, self.written = settling.signals, settling.written
        self.sizes: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.poison: set[Claim] = set()
        self.refusing: set[Claim] = set()
        self.away = False
        self.lose_answers = 0
        self._number = 0
        self._settle = store.settle
        store.intercept("settle", self._watched)

    async def _watched(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        self.sizes.append(len(settlements))
        await self.gate.wait()
        if self.away:
            raise BackendUnavailable("away")
        if any(each.claim in self.poison for each in settlements):
            raise ValueError("this cannot be written")
        if any(each.claim in self.refusing for each in settlements):
            raise RequestRefused("the store does not write this")
        verdicts = await self._settle(settlements)
        if self.lose_answers:
            self.lose_answers -= 1
            raise BackendUnavailable("the answer was lost", uncertain=True)
        return verdicts

    async def claims(self, count: int) -> list[Claim]:
        self._number += 1
        messages = [Message(new_id(), "send", b"") for _ in range(count)]
        await self.backend.append(Batch(SOURCE, "producer", self._number, messages))
        return await self.backend.claim([SOURCE], consumer="worker", limit=count, suspects=0, wait=0)

    async def finish(self, count: int = 1) -> list[Claim]:
        claims = await self.claims(count)
        self.in_flight.write([FinishedRun(claim, DONE) for claim in claims])
        return claims


@pytest.fixture
async def harness() -> SettlerHarness:
    return SettlerHarness()


async def test_a_lone_outcome_is_written_at_once(harness: SettlerHarness) -> None:
    harness.settler.start()
    (claim,) = await harness.finish()
    assert await harness.in_flight.flushed(10)
    assert harness.written == [(claim, Verdict.KEPT, False)]
    await harness.settler.stop()


async def test_what_gathers_during_a_write_goes_together_in_the_next(harness: SettlerHarness) -> None:
    harness.settler.start()
    harness.gate.clear()
    await harness.finish(1)
    await wait_until(lambda: harness.sizes == [1])
    for _ in range(10):
        await harness.finish(2)
    harness.gate.set()
    assert await harness.in_flight.flushed(10)
    assert harness.sizes == [1, 20]
    await harness.settler.stop()


async def test_a_flood_is_written_in_bounded_batches(harness: SettlerHarness) -> None:
    await harness.finish(2 * BATCH + 1)
    assert len(harness.in_flight.unwritten) == 2 * BATCH + 1
    harness.settler.start()
    assert await harness.in_flight.flushed(10)
    assert harness.sizes == [BATCH, BATCH, 1]
    assert len(harness.in_flight.unwritten) == 0
    await harness.settler.stop()


async def test_flushing_says_when_it_took_too_long(harness: SettlerHarness) -> None:
    harness.settler.start()
    harness.gate.clear()
    await harness.finish()
    assert not await harness.in_flight.flushed(0.01)
    harness.gate.set()
    assert await harness.in_flight.flushed(10)
    await harness.settler.stop()


async def test_the_verdict_of_the_store_is_passed_on(harness: SettlerHarness) -> None:
    (claim,) = await harness.claims(1)
    harness.in_flight.write([FinishedRun(claim, DONE), FinishedRun(claim, DONE)])
    harness.settler.start()
    assert await harness.in_flight.flushed(10)
    assert [verdict for _, verdict, _ in harness.written] == [Verdict.KEPT, Verdict.GONE]
    await harness.settler.stop()


async def test_a_store_that_was_away_gets_everything_when_it_is_back(harness: SettlerHarness) -> None:
    harness.away = True
    harness.settler.start()
    claims = await harness.finish(3)
    await wait_until(lambda: harness.heard)
    assert harness.written == []
    harness.away = False
    claims += await harness.finish(2)
    assert await harness.in_flight.flushed(10)
    assert [claim for claim, _, _ in harness.written] == claims
    assert {verdict for _, verdict, _ in harness.written} == {Verdict.KEPT}
    assert isinstance(harness.heard[0], signals.BackendError)
    await harness.settler.stop()


async def test_after_a_lost_answer_the_verdicts_are_doubtful_and_then_no_more(
    harness: SettlerHarness,
) -> None:
    harness.lose_answers = 1
    harness.settler.start()
    await harness.finish(2)
    assert await harness.in_flight.flushed(10)
    assert [(verdict, doubtful) for _, verdict, doubtful in harness.written] == [(Verdict.GONE, True)] * 2
    harness.written.clear()
    await harness.finish(1)
    assert await harness.in_flight.flushed(10)
    assert [(verdict, doubtful) for _, verdict, doubtful in harness.written] == [(Verdict.KEPT, False)]
    await harness.settler.stop()


async def test_one_that_cannot_be_written_is_given_up_and_the_others_are_written(
    harness: SettlerHarness,
) -> None:
    claims = await harness.finish(5)
    harness.poison = {claims[2]}
    harness.settler.start()
    assert await harness.in_flight.flushed(10)
    verdicts = {claim: verdict for claim, verdict, _ in harness.written}
    assert list(verdicts) == claims
    assert verdicts.pop(claims[2]) is Verdict.LOST
    assert set(verdicts.values()) == {Verdict.KEPT}
    record = await harness.backend.get(SOURCE, claims[2].id)
    assert record is not None
    assert record.status is JobStatus.RUNNING
    (error,) = [signal for signal in harness.heard if isinstance(signal, signals.BackendError)]
    assert "this cannot be written" in error.error
    await harness.settler.stop()


async def test_a_store_that_refuses_everything_for_a_while_gets_everything_in_the_end(
    harness: SettlerHarness,
) -> None:
    claims = await harness.finish(3)
    harness.refusing = set(claims)
    harness.settler.start()
    await wait_until(lambda: len(harness.sizes) > 6)
    assert harness.written == []
    harness.refusing = set()
    assert await harness.in_flight.flushed(10)
    assert {(claim, verdict) for claim, verdict, _ in harness.written} == {
        (claim, Verdict.KEPT) for claim in claims
    }
    await harness.settler.stop()


async def test_one_that_is_refused_in_every_way_is_given_up_as_soon_as_another_is_written(
    harness: SettlerHarness,
) -> None:
    claims = await harness.finish(3)
    harness.refusing = {claims[0]}
    harness.settler.start()
    assert await harness.in_flight.flushed(10)
    verdicts = {claim: verdict for claim, verdict, _ in harness.written}
    assert verdicts == {claims[0]: Verdict.LOST, claims[1]: Verdict.KEPT, claims[2]: Verdict.KEPT}
    await harness.settler.stop()


async def test_a_store_that_goes_away_between_single_writes_loses_none(
    harness: SettlerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await harness.finish(4)
    harness.poison = {claims[0]}

    def go_away(signal: signals.Signal) -> None:
        harness.away = False

    harness.emitter.on(signals.BackendError, go_away)
    settled = harness.signals.settled

    def away_after_the_first(finished: FinishedRun, verdict: Verdict, doubtful: bool) -> None:
        settled(finished, verdict, doubtful)
        harness.away = len(harness.written) == 2

    monkeypatch.setattr(harness.signals, "settled", away_after_the_first)
    harness.settler.start()
    assert await harness.in_flight.flushed(10)
    assert [claim for claim, _, _ in harness.written] == claims
    await harness.settler.stop()


async def test_an_announcement_may_fail_without_losing_an_outcome(
    harness: SettlerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = harness.signals.settled

    def fail_once(finished: FinishedRun, verdict: Verdict, doubtful: bool) -> None:
        settled(finished, verdict, doubtful)
        if len(harness.written) == 1:
            raise ValueError("a bug")

    monkeypatch.setattr(harness.signals, "settled", fail_once)
    harness.settler.start()
    (first,) = await harness.finish(1)
    await wait_until(lambda: harness.heard)
    (second,) = await harness.finish(1)
    assert await harness.in_flight.flushed(10)
    assert [claim for claim, _, _ in harness.written] == [first, second]
    await harness.settler.stop()
