"""Reclaiming: a worker is gone, its leases run out, and its messages run elsewhere or are dead."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.messages.message import FRESH, LOW, Stream, TrailEntry
from headrace.core.messages.outcome import Done, Released, Verdict
from headrace.core.records.answers import Reclaimed, Renewal
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.store import CRASH_LIMIT
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, retry
from headrace.testing.waiting import wait_until


async def test_a_lease_that_has_not_run_out_is_left_alone(stand: Stand) -> None:
    claim = await stand.running()
    await stand.advance(LEASE - 5)
    assert await stand.reclaim() == []
    assert await stand.status(claim.id) is JobStatus.RUNNING


async def test_there_is_nothing_to_reclaim_in_an_empty_stream(stand: Stand) -> None:
    assert await stand.backend.reclaim([stand.source], limit=10) == Reclaimed((), more=False)


async def test_a_message_whose_lease_ran_out_is_queued_again(stand: Stand) -> None:
    claim = await stand.running()
    await stand.advance(LEASE + 1)
    await stand.reclaim()
    assert await stand.status(claim.id) is JobStatus.QUEUED
    assert (await stand.counts()).running == 0
    assert await stand.claim_ids() == [claim.id]


async def test_a_recovery_says_what_was_recovered_and_from_whom(stand: Stand) -> None:
    await stand.add(task="mail.send")
    claim = await stand.claim_one(consumer="host-7")
    recovery = await stand.lose(claim)
    assert (recovery.stream, recovery.id, recovery.task) == (stand.source, claim.id, "mail.send")
    assert (recovery.worker, recovery.crashes, recovery.status) == ("host-7", 1, JobStatus.QUEUED)


async def test_a_recovered_message_counts_a_crash_and_remembers_it(stand: Stand) -> None:
    await stand.add()
    claim = await stand.claim_one(consumer="host-7")
    await stand.lose(claim)
    state = (await stand.claim_one(claim.id)).state
    assert (state.failures, state.crashes, state.releases, state.attempt) == (0, 1, 0, 2)
    (entry,) = state.trail
    assert (entry.what, entry.worker) == ("crashed", "host-7")
    assert abs(entry.at_us - stand.now_us()) < 5 * SECOND


async def test_a_crash_adds_to_the_state_that_was_there(stand: Stand) -> None:
    claim = await stand.running()
    failed = retry(delay=10).state
    await stand.retry(claim, delay=10)
    await stand.advance(11)
    await stand.promote()
    await stand.lose(await stand.claim_one(claim.id))
    state = (await stand.claim_one(claim.id)).state
    assert (state.failures, state.crashes, state.attempt) == (1, 1, 3)
    assert state.trail[:-1] == failed.trail


async def test_a_recovered_message_keeps_body_priority_and_expiry(stand: Stand) -> None:
    await stand.add(body=b"the same", priority=LOW, lifetime=600)
    claim = await stand.claim_one()
    await stand.lose(claim)
    again = await stand.claim_one(claim.id)
    assert (again.body, again.priority, again.expires_us) == (b"the same", LOW, claim.expires_us)


async def test_at_the_crash_limit_a_message_is_dead_without_running(stand: Stand) -> None:
    id = await stand.add(body=b"poison")
    for crashes in range(1, CRASH_LIMIT + 1):
        recovery = await stand.lose(await stand.claim_one(id))
        assert recovery.crashes == crashes
    assert recovery.status is JobStatus.DEAD
    assert await stand.claim() == []
    record = await stand.look(id)
    assert (record.status, record.body, record.reason) == (JobStatus.DEAD, b"poison", "crashed")
    assert record.state.crashes == CRASH_LIMIT
    assert len(record.state.trail) == CRASH_LIMIT
    assert (await stand.counts()).dead == 1


@pytest.mark.parametrize("most", [1, 2, 5])
async def test_a_stream_may_have_another_crash_limit(stand: Stand, most: int) -> None:
    id = await stand.add(body=b"poison")
    for _ in range(most - 1):
        recovery = await stand.lose(await stand.claim_one(id), {stand.stream: most})
        assert recovery.status is JobStatus.QUEUED
    recovery = await stand.lose(await stand.claim_one(id), {stand.stream: most})
    assert (recovery.status, recovery.crashes) == (JobStatus.DEAD, most)
    failure = (await stand.look(id)).failure
    assert failure is not None
    assert f"{most} times" in failure.error


async def test_the_crash_limit_of_another_stream_does_not_count(stand: Stand) -> None:
    id = await stand.add()
    recovery = await stand.lose(await stand.claim_one(id), {Stream("queue", "other"): 1})
    assert recovery.status is JobStatus.QUEUED


async def test_crashes_of_child_processes_count_towards_the_limit(stand: Stand) -> None:
    claim = await stand.running()
    state = FRESH
    for _ in range(CRASH_LIMIT - 1):
        state = state.crashed(TrailEntry(1, "crashed", "worker-1"))
    await stand.settle(claim, Released(state))
    recovery = await stand.lose(await stand.claim_one(claim.id))
    assert (recovery.crashes, recovery.status) == (CRASH_LIMIT, JobStatus.DEAD)


async def test_failures_and_releases_do_not_count_towards_the_crash_limit(stand: Stand) -> None:
    claim = await stand.running()
    state = FRESH
    for _ in range(5):
        state = state.failed(TrailEntry(1, "failed", "worker-1")).released()
    await stand.settle(claim, Released(state))
    recovery = await stand.lose(await stand.claim_one(claim.id))
    assert (recovery.crashes, recovery.status) == (1, JobStatus.QUEUED)


async def test_a_step_takes_no_more_than_its_limit(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(10)])
    await stand.claim()
    await stand.advance(LEASE + 1)
    recovered: set[str] = set()
    for _ in range(50):
        step = await stand.backend.reclaim([stand.source], limit=3)
        assert len(step.recovered) <= 3
        recovered |= {recovery.id for recovery in step.recovered}
        if not step.more:
            break
    assert len(recovered) == 10


async def test_a_scan_comes_round_even_when_nothing_is_overdue(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(250)])
    await stand.claim(250)
    assert await stand.reclaim(limit=100) == []


async def test_a_scan_comes_round_when_its_step_has_emptied_the_stream(stand: Stand) -> None:
    claims = [await stand.running() for _ in range(2)]
    for claim in claims:
        await stand.backend.cancel(stand.stream, claim.id, ttl_us=HOUR_US)
    await stand.advance(LEASE + 1)
    assert len(await stand.reclaim(limit=2)) == 2


async def test_an_overdue_message_behind_many_living_ones_is_found(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(250)])
    claims = await stand.claim(250)
    await stand.advance(LEASE * 0.6)
    await stand.renew(*claims[:-1])
    await stand.advance(LEASE * 0.6)
    assert [recovery.id for recovery in await stand.reclaim(limit=100)] == [claims[-1].id]


async def test_each_message_is_recovered_once(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    await stand.advance(LEASE + 1)
    assert await stand.reclaim() == []
    assert (await stand.look(claim.id)).state.crashes == 1


async def test_two_processes_recover_a_message_once(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(20)])
    await stand.claim()
    await stand.advance(LEASE + 1)
    other = await stand.other()
    first = await stand.backend.reclaim([stand.source], limit=100)
    second = await other.reclaim([stand.source], limit=100)
    ids = [recovery.id for recovery in (*first.recovered, *second.recovered)]
    assert len(ids) == len(set(ids)) == 20


async def test_reclaim_looks_at_the_sources_it_is_given(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    here, there = await stand.add(), await stand.add(source=elsewhere)
    sources = [stand.source, elsewhere]
    assert len(await stand.claim(sources=sources)) == 2
    await stand.advance(LEASE + 1)
    assert [recovery.id for recovery in await stand.reclaim(sources=[elsewhere])] == [there]
    assert [recovery.id for recovery in await stand.reclaim(sources=sources)] == [here]


async def test_reclaim_serves_several_sources_in_its_steps(stand: Stand) -> None:
    sources = [stand.source, await stand.queue("second"), await stand.queue("third")]
    for source in sources:
        await stand.append(*[stand.message() for _ in range(5)], source=source)
    assert len(await stand.claim(sources=sources)) == 15
    await stand.advance(LEASE + 1)
    recovered = await stand.reclaim(sources=sources, limit=4)
    assert len({recovery.id for recovery in recovered}) == 15
    assert {recovery.stream for recovery in recovered} == set(sources)


async def test_a_message_that_was_to_be_cancelled_ends_when_it_is_recovered(stand: Stand) -> None:
    claim = await stand.running()
    await stand.backend.cancel(stand.stream, claim.id, ttl_us=HOUR_US)
    recovery = await stand.lose(claim)
    assert recovery.status is JobStatus.CANCELLED
    assert await stand.status(claim.id) is JobStatus.CANCELLED
    assert await stand.claim() == []


async def test_a_released_message_is_not_recovered(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Released())
    await stand.advance(LEASE + 1)
    assert await stand.reclaim() == []


async def test_the_second_run_may_succeed(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    again = await stand.claim_one(claim.id, consumer="worker-2")
    assert await stand.settle(again, Done()) is Verdict.KEPT
    assert await stand.status(claim.id) is JobStatus.UNKNOWN


# --- one scan for all ------------------------------------------------------------------------------------


async def test_workers_take_turns_and_a_worker_without_one_does_nothing(stand: Stand) -> None:
    backends = [stand.backend, await stand.other()]
    claim = await stand.running()
    await stand.advance(LEASE + 1)
    looks: list[Reclaimed] = []

    async def is_recovered() -> bool:
        for backend in backends:
            looks.append(await backend.reclaim([stand.source], limit=10, every_us=50_000))
        return any(look.recovered for look in looks)

    await wait_until(is_recovered)
    assert [recovery.id for look in looks for recovery in look.recovered] == [claim.id]
    assert not any(look.recovered or look.more for look in looks if look.others_turn)


# --- outages, and clocks that are set --------------------------------------------------------------------


async def test_after_an_outage_no_worker_takes_anything_for_one_lease(stand: Stand) -> None:
    other = await stand.other()
    claim = await stand.running()
    await stand.advance(LEASE + 1)
    assert (await other.reclaim([stand.source], limit=10, after_outage=True)).recovered == ()
    assert await stand.reclaim() == []
    await stand.advance(LEASE - 5)
    assert await stand.reclaim() == []
    await stand.advance(6)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_a_renewal_after_an_outage_keeps_what_the_others_hold(stand: Stand) -> None:
    mine, theirs = await stand.running(), await stand.running()
    elsewhere = await stand.queue("elsewhere")
    await stand.add(source=elsewhere)
    await stand.claim(sources=[elsewhere])
    await stand.advance(LEASE + 1)
    assert await stand.renew(mine, after_outage=True) == [Renewal.KEPT]
    parts = [theirs.id] if stand.parts > 1 else []  # another part may not have heard of it
    assert {recovery.id for recovery in await stand.reclaim()} <= set(parts)
    assert len(await stand.reclaim(sources=[elsewhere])) == 1, "in its streams alone"
    assert await stand.renew(theirs) == [Renewal.KEPT] or parts
    await stand.advance(LEASE + 1)
    assert mine.id in {recovery.id for recovery in await stand.reclaim()}


async def test_when_the_clock_is_set_forward_nothing_is_taken_for_one_lease(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.reclaim() == []
    await stand.step(3600)
    seen = await stand.backend.reclaim([stand.source], limit=10)
    assert seen.recovered == ()
    assert abs(seen.stepped_us - microseconds(3600)) < 5 * SECOND
    assert await stand.backend.reclaim([stand.source], limit=10) == Reclaimed()
    await stand.advance(LEASE - 5)
    assert await stand.renew(claim) == [Renewal.KEPT]
    await stand.advance(LEASE - 5)
    assert await stand.reclaim() == []
    await stand.advance(6)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_a_step_of_the_clock_holds_for_the_streams_of_every_worker(stand: Stand) -> None:
    """Workers of one process share the store, and may serve different streams."""
    elsewhere = await stand.queue("elsewhere")
    await stand.add(source=elsewhere)
    claims = [await stand.running(), *await stand.claim(sources=[elsewhere])]
    await stand.reclaim()
    await stand.reclaim(sources=[elsewhere])
    await stand.step(3600)
    await stand.reclaim()
    assert await stand.reclaim(sources=[elsewhere]) == []
    assert await stand.renew(*claims) == [Renewal.KEPT] * 2


async def test_one_step_of_the_clock_is_told_once(stand: Stand) -> None:
    await stand.running()
    await stand.reclaim()
    await stand.step(3600)
    looks = [stand.backend.reclaim([stand.source], limit=10) for _ in range(4)]
    seen = [*await asyncio.gather(*looks), await stand.backend.reclaim([stand.source], limit=10)]
    assert [round(each.stepped_us / SECOND) for each in seen if each.stepped_us] == [3600]


async def test_when_the_clock_is_set_back_leases_run_out_from_the_new_time(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.reclaim() == []
    await stand.step(-3600)
    seen = await stand.backend.reclaim([stand.source], limit=10)
    assert seen.recovered == ()
    assert abs(seen.stepped_us + microseconds(3600)) < 5 * SECOND
    await stand.advance(LEASE - 5)
    assert await stand.reclaim() == []
    await stand.advance(6)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_who_comes_after_the_clock_was_set_back_takes_what_ran_out(stand: Stand) -> None:
    claim = await stand.running()
    await stand.reclaim()
    await stand.step(-3600)
    other = await stand.other()
    await other.reclaim([stand.source], limit=10)
    await stand.advance(LEASE + 1)
    assert [each.id for each in (await other.reclaim([stand.source], limit=10)).recovered] == [claim.id]


# --- the lease belongs to the stream ----------------------------------------------------------------------


async def test_ensuring_a_new_source_answers_nothing(stand: Stand) -> None:
    assert await stand.backend.declare_stream(Stream("queue", "fresh"), microseconds(20)) is None


async def test_ensuring_again_with_the_same_lease_answers_nothing(stand: Stand) -> None:
    assert await stand.backend.declare_stream(stand.source, microseconds(LEASE)) is None


async def test_ensuring_with_another_lease_answers_the_one_before(stand: Stand) -> None:
    assert await stand.backend.declare_stream(stand.source, microseconds(20)) == microseconds(LEASE)
    assert await stand.backend.declare_stream(stand.source, microseconds(40)) == microseconds(20)


async def test_a_changed_lease_holds_for_the_claims_of_all_processes(stand: Stand) -> None:
    other = await stand.other()
    await other.declare_stream(stand.source, microseconds(LEASE * 10))
    claim = await stand.running()
    await stand.advance(LEASE * 5)
    assert await stand.reclaim() == []
    await stand.advance(LEASE * 5 + 1)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_each_stream_has_a_lease_of_its_own(stand: Stand) -> None:
    patient = await stand.queue("patient")
    await stand.backend.declare_stream(patient, microseconds(LEASE * 10))
    sources = [stand.source, patient]
    hasty_id = await stand.add()
    await stand.add(source=patient)
    assert len(await stand.claim(sources=sources)) == 2
    await stand.advance(LEASE + 1)
    assert [recovery.id for recovery in await stand.reclaim(sources=sources)] == [hasty_id]


async def test_ensuring_keeps_what_is_in_the_stream(stand: Stand) -> None:
    id = await stand.add()
    claim_later = await stand.add(delay=10)
    await stand.backend.declare_stream(stand.source, microseconds(20))
    assert await stand.claim_ids() == [id]
    assert await stand.status(claim_later) is JobStatus.SCHEDULED
