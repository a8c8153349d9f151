"""Leases are renewed from a thread, whatever the event loop does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

import msgspec
import pytest

from headrace import signals
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import DONE, Settlement
from headrace.core.records.answers import CancelAnswer, Renewal
from headrace.core.runtime.clock import microseconds
from headrace.core.store import LeaseKeeper
from headrace.engine.upkeep import lease_renewal as lease_renewal_module
from headrace.engine.upkeep.lease_renewal import LeaseRenewal
from headrace.engine.upkeep.leases import Leases
from headrace.engine.upkeep.process_pulse import ProcessPulse
from tests.support.waiting import wait_until, wait_until_sync
from tests.unit.engine.bench import LEASE, SOURCE, Bench

#: Renewed every 10 ms.
SHORT = 0.05


class Watched(LeaseKeeper):
    """The store's, with an eye on it."""

    def __init__(self, leases: LeaseKeeper) -> None:
        self._leases = leases
        self.rounds: list[list[Claim]] = []
        self.threads: set[str] = set()
        self.away = False
        self.refusing: set[Stream] = set()
        self.after_outages: list[set[str]] = []
        self.closed = False
        self.meanwhile: list[Callable[[], None]] = []  # each is called during one round

    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        self.rounds.append(list(claims))
        self.threads.add(threading.current_thread().name)
        if self.meanwhile:
            self.meanwhile.pop()()
        if self.away:
            raise BackendUnavailable("away")
        if after_outage and not self.refusing.intersection(claim.stream for claim in claims):
            self.after_outages.append({claim.id for claim in claims})
        return [
            Renewal.UNKNOWN if claim.stream in self.refusing else renewal
            for claim, renewal in zip(claims, await self._leases.renew(claims), strict=True)
        ]

    async def close(self) -> None:
        self.closed = True
        await self._leases.close()


class Watch:
    def __init__(self, bench: Bench, lease: float = SHORT) -> None:
        self.leases = Watched(bench.backend.lease_keeper())
        self.reported: list[tuple[Claim, Renewal]] = []
        self.shortest = Leases(bench.served, lease)
        self.keeper = LeaseRenewal(
            self.leases,
            held=bench.held,
            leases=self.shortest,
            emitter=bench.emitter,
            report=self.reported.extend,
            pulse=ProcessPulse(self.shortest),
        )


async def test_what_is_held_is_renewed_until_it_is_let_go(bench: Bench) -> None:
    watch = Watch(bench)
    bench.held.take(claims := await bench.claims(count=2))
    watch.keeper.start()
    await wait_until(lambda: len(watch.leases.rounds) >= 3)
    assert watch.leases.rounds[0] == claims
    bench.held.drop(claims[0])
    await wait_until(lambda: watch.leases.rounds[-1] == [claims[1]])
    await watch.keeper.stop()
    assert watch.reported == []
    assert watch.leases.closed


async def test_renewing_goes_on_while_the_event_loop_is_blocked(bench: Bench) -> None:
    watch = Watch(bench)
    bench.held.take(claims := await bench.claims())
    watch.keeper.start()
    for _ in range(5):
        bench.clock.advance(LEASE - 5)
        seen = len(watch.leases.rounds)
        wait_until_sync(lambda seen=seen: len(watch.leases.rounds) > seen + 1)  # type: ignore[misc]
    assert (await bench.backend.reclaim([SOURCE], limit=10)).recovered == ()
    await watch.keeper.stop()
    assert watch.leases.threads == {"headrace lease renewal"}
    bench.clock.advance(LEASE + 1)
    (recovery,) = (await bench.backend.reclaim([SOURCE], limit=10)).recovered
    assert recovery.id == claims[0].id


async def test_a_claim_is_not_renewed_before_a_fifth_of_its_lease(bench: Bench) -> None:
    watch = Watch(bench)
    bench.held.take(await bench.claims())
    assert bench.held.older_than(watch.keeper._interval) == []
    await watch.keeper._renew()
    assert watch.leases.rounds == []


async def test_what_was_lost_is_reported_on_the_event_loop(bench: Bench) -> None:
    watch = Watch(bench)
    bench.held.take(claims := await bench.claims(count=2))
    await bench.backend.settle([Settlement(claims[0], DONE)])
    watch.keeper.start()
    wait_until_sync(lambda: len(watch.leases.rounds) >= 2)
    assert watch.reported == []
    await wait_until(lambda: watch.reported)
    assert watch.reported[0] == (claims[0], Renewal.LOST)
    await watch.keeper.stop()


async def test_a_cancellation_is_reported_while_the_lease_is_kept(bench: Bench) -> None:
    watch = Watch(bench)
    bench.held.take(claims := await bench.claims())
    assert await bench.backend.cancel(SOURCE, claims[0].id, ttl_us=1) is CancelAnswer.REQUESTED
    watch.keeper.start()
    await wait_until(lambda: watch.reported)
    assert watch.reported[0] == (claims[0], Renewal.CANCELLED)
    await watch.keeper.stop()


async def test_while_the_store_is_away_nothing_is_lost_and_it_is_tried_again(bench: Bench) -> None:
    watch = Watch(bench)
    bench.held.take(await bench.claims())
    watch.leases.away = True
    watch.keeper.start()
    await wait_until(lambda: len(bench.heard) >= 2)
    watch.leases.away = False
    seen = len(watch.leases.rounds)
    await wait_until(lambda: len(watch.leases.rounds) > seen + 1)
    await watch.keeper.stop()
    assert watch.reported == []
    first = bench.heard[0]
    assert isinstance(first, signals.BackendError)
    assert (first.service, first.error) == ("lease renewal", "away")


async def test_where_renewals_are_refused_they_are_tried_again_soon_and_told_of_as_an_outage(
    bench: Bench,
) -> None:
    watch = Watch(bench, lease=LEASE)
    elsewhere = Stream("queue", "elsewhere")
    [there], [here] = await bench.claims(), await bench.claims()
    refused = msgspec.structs.replace(there, stream=elsewhere)
    bench.held.take([refused, here])
    watch.keeper._interval = 0.0
    watch.leases.refusing = {elsewhere}
    await watch.keeper._renew()
    await watch.keeper._renew(whole=False)
    assert watch.leases.rounds == [[refused, here], [refused]], "the others wait for the next round"
    await asyncio.sleep(0)  # a report comes with the next turn of the event loop
    assert watch.reported == [], "nothing is assumed lost"
    watch.leases.refusing = set()
    await watch.keeper._renew()
    assert watch.leases.after_outages == [{refused.id}]
    await watch.keeper._renew()
    assert watch.leases.after_outages == [{refused.id}], "once is enough"


async def test_a_short_refusal_is_no_outage(bench: Bench) -> None:
    watch = Watch(bench, lease=LEASE)
    bench.held.take(await bench.claims())
    watch.keeper._urgent = True
    watch.leases.away = True
    await watch.keeper._renew()
    watch.leases.away = False
    await watch.keeper._renew()
    assert watch.leases.after_outages == []


async def test_a_lease_that_changes_during_a_round_is_renewed_once_more(bench: Bench) -> None:
    watch = Watch(bench, lease=3600)
    bench.held.take(claims := await bench.claims())
    watch.leases.meanwhile.append(lambda: watch.shortest.changed({SOURCE: microseconds(900)}))
    watch.keeper.start()
    watch.shortest.changed({SOURCE: microseconds(1800)})
    await wait_until(lambda: len(watch.leases.rounds) >= 2)
    await watch.keeper.stop()
    assert watch.leases.rounds == [claims, claims]


async def test_many_claims_are_renewed_in_batches(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_renewal_module, "BATCH", 2)
    watch = Watch(bench)
    bench.held.take(claims := await bench.claims(count=5))
    watch.keeper.start()
    await wait_until(lambda: len(watch.leases.rounds) >= 3)
    await watch.keeper.stop()
    assert watch.leases.rounds[:3] == [claims[:2], claims[2:4], claims[4:]]


async def test_stopping_does_not_wait_for_the_next_round(bench: Bench) -> None:
    watch = Watch(bench, lease=3600)
    watch.keeper.start()
    began = time.monotonic()
    await watch.keeper.stop()
    assert time.monotonic() - began < 5


async def test_what_is_held_on_an_event_loop_that_was_closed_is_renewed_no_more(bench: Bench) -> None:
    bench.held.take(await bench.claims())

    async def begin() -> Watch:
        watch = Watch(bench)
        watch.keeper.start()
        return watch

    loop = asyncio.new_event_loop()
    watch = await asyncio.to_thread(loop.run_until_complete, begin())
    loop.close()
    await wait_until(lambda: watch.leases.closed)
    await watch.keeper.stop()


async def test_another_lease_renews_all_that_is_held_at_once_and_then_at_its_pace(bench: Bench) -> None:
    watch = Watch(bench, lease=3600)
    bench.held.take(claims := await bench.claims(count=2))
    watch.keeper.start()
    watch.shortest.changed({SOURCE: microseconds(SHORT)})
    await wait_until(lambda: len(watch.leases.rounds) >= 4)
    await watch.keeper.stop()
    assert watch.leases.rounds[0] == claims


async def test_what_could_not_be_renewed_at_once_is_tried_again_before_it_is_due(bench: Bench) -> None:
    watch = Watch(bench, lease=3600)
    watch.leases.away = True
    bench.held.take(claims := await bench.claims())
    watch.keeper.start()
    watch.shortest.changed({SOURCE: microseconds(1800)})
    await wait_until(lambda: bench.heard)
    watch.leases.away = False
    watch.keeper._woken.set()
    await wait_until(lambda: len(watch.leases.rounds) >= 2)
    await watch.keeper.stop()
    assert watch.leases.rounds[-1] == claims
