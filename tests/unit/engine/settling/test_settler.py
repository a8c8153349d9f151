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


class Desk:
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
async def desk() -> Desk:
    return Desk()


async def test_a_lone_outcome_is_written_at_once(desk: Desk) -> None:
    desk.settler.start()
    (claim,) = await desk.finish()
    assert await desk.in_flight.flushed(10)
    assert desk.written == [(claim, Verdict.KEPT, False)]
    await desk.settler.stop()


async def test_what_gathers_during_a_write_goes_together_in_the_next(desk: Desk) -> None:
    desk.settler.start()
    desk.gate.clear()
    await desk.finish(1)
    await wait_until(lambda: desk.sizes == [1])
    for _ in range(10):
        await desk.finish(2)
    desk.gate.set()
    assert await desk.in_flight.flushed(10)
    assert desk.sizes == [1, 20]
    await desk.settler.stop()


async def test_a_flood_is_written_in_bounded_batches(desk: Desk) -> None:
    await desk.finish(2 * BATCH + 1)
    assert len(desk.in_flight.unwritten) == 2 * BATCH + 1
    desk.settler.start()
    assert await desk.in_flight.flushed(10)
    assert desk.sizes == [BATCH, BATCH, 1]
    assert len(desk.in_flight.unwritten) == 0
    await desk.settler.stop()


async def test_flushing_says_when_it_took_too_long(desk: Desk) -> None:
    desk.settler.start()
    desk.gate.clear()
    await desk.finish()
    assert not await desk.in_flight.flushed(0.01)
    desk.gate.set()
    assert await desk.in_flight.flushed(10)
    await desk.settler.stop()


async def test_the_verdict_of_the_store_is_passed_on(desk: Desk) -> None:
    (claim,) = await desk.claims(1)
    desk.in_flight.write([FinishedRun(claim, DONE), FinishedRun(claim, DONE)])
    desk.settler.start()
    assert await desk.in_flight.flushed(10)
    assert [verdict for _, verdict, _ in desk.written] == [Verdict.KEPT, Verdict.GONE]
    await desk.settler.stop()


async def test_a_store_that_was_away_gets_everything_when_it_is_back(desk: Desk) -> None:
    desk.away = True
    desk.settler.start()
    claims = await desk.finish(3)
    await wait_until(lambda: desk.heard)
    assert desk.written == []
    desk.away = False
    claims += await desk.finish(2)
    assert await desk.in_flight.flushed(10)
    assert [claim for claim, _, _ in desk.written] == claims
    assert {verdict for _, verdict, _ in desk.written} == {Verdict.KEPT}
    assert isinstance(desk.heard[0], signals.BackendError)
    await desk.settler.stop()


async def test_after_a_lost_answer_the_verdicts_are_doubtful_and_then_no_more(desk: Desk) -> None:
    desk.lose_answers = 1
    desk.settler.start()
    await desk.finish(2)
    assert await desk.in_flight.flushed(10)
    assert [(verdict, doubtful) for _, verdict, doubtful in desk.written] == [(Verdict.GONE, True)] * 2
    desk.written.clear()
    await desk.finish(1)
    assert await desk.in_flight.flushed(10)
    assert [(verdict, doubtful) for _, verdict, doubtful in desk.written] == [(Verdict.KEPT, False)]
    await desk.settler.stop()


async def test_one_that_cannot_be_written_is_given_up_and_the_others_are_written(desk: Desk) -> None:
    claims = await desk.finish(5)
    desk.poison = {claims[2]}
    desk.settler.start()
    assert await desk.in_flight.flushed(10)
    verdicts = {claim: verdict for claim, verdict, _ in desk.written}
    assert list(verdicts) == claims
    assert verdicts.pop(claims[2]) is Verdict.LOST
    assert set(verdicts.values()) == {Verdict.KEPT}
    record = await desk.backend.get(SOURCE, claims[2].id)
    assert record is not None
    assert record.status is JobStatus.RUNNING
    (error,) = [signal for signal in desk.heard if isinstance(signal, signals.BackendError)]
    assert "this cannot be written" in error.error
    await desk.settler.stop()


async def test_a_store_that_refuses_everything_for_a_while_gets_everything_in_the_end(desk: Desk) -> None:
    claims = await desk.finish(3)
    desk.refusing = set(claims)
    desk.settler.start()
    await wait_until(lambda: len(desk.sizes) > 6)
    assert desk.written == []
    desk.refusing = set()
    assert await desk.in_flight.flushed(10)
    assert {(claim, verdict) for claim, verdict, _ in desk.written} == {
        (claim, Verdict.KEPT) for claim in claims
    }
    await desk.settler.stop()


async def test_one_that_is_refused_in_every_way_is_given_up_as_soon_as_another_is_written(desk: Desk) -> None:
    claims = await desk.finish(3)
    desk.refusing = {claims[0]}
    desk.settler.start()
    assert await desk.in_flight.flushed(10)
    verdicts = {claim: verdict for claim, verdict, _ in desk.written}
    assert verdicts == {claims[0]: Verdict.LOST, claims[1]: Verdict.KEPT, claims[2]: Verdict.KEPT}
    await desk.settler.stop()


async def test_a_store_that_goes_away_between_single_writes_loses_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await desk.finish(4)
    desk.poison = {claims[0]}

    def go_away(signal: signals.Signal) -> None:
        desk.away = False

    desk.emitter.on(signals.BackendError, go_away)
    settled = desk.signals.settled

    def away_after_the_first(finished: FinishedRun, verdict: Verdict, doubtful: bool) -> None:
        settled(finished, verdict, doubtful)
        desk.away = len(desk.written) == 2

    monkeypatch.setattr(desk.signals, "settled", away_after_the_first)
    desk.settler.start()
    assert await desk.in_flight.flushed(10)
    assert [claim for claim, _, _ in desk.written] == claims
    await desk.settler.stop()


async def test_an_announcement_may_fail_without_losing_an_outcome(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = desk.signals.settled

    def fail_once(finished: FinishedRun, verdict: Verdict, doubtful: bool) -> None:
        settled(finished, verdict, doubtful)
        if len(desk.written) == 1:
            raise ValueError("a bug")

    monkeypatch.setattr(desk.signals, "settled", fail_once)
    desk.settler.start()
    (first,) = await desk.finish(1)
    await wait_until(lambda: desk.heard)
    (second,) = await desk.finish(1)
    assert await desk.in_flight.flushed(10)
    assert [claim for claim, _, _ in desk.written] == [first, second]
    await desk.settler.stop()
