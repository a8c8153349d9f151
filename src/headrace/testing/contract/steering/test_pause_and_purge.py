"""Pausing stops the hand-out of a stream. Purging ends what waits in it."""

from __future__ import annotations

import asyncio

from headrace.core.messages.message import FRESH, UniqueKey
from headrace.core.messages.outcome import Released, Snoozed
from headrace.core.records.answers import Promoted
from headrace.core.records.control import ControlMessage, PauseNotice
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.heartbeats import beat
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, queue_and_group, worker_info
from headrace.testing.waiting import wait_until


async def test_a_paused_stream_hands_out_nothing(stand: Stand) -> None:
    await stand.add()
    await _pause(stand)
    assert await stand.claim() == []


async def test_a_paused_stream_hands_out_nothing_to_other_processes(stand: Stand) -> None:
    await stand.add()
    await _pause(stand)
    assert await stand.claim(by=await stand.other()) == []


async def test_a_resumed_stream_hands_out_again(stand: Stand) -> None:
    id = await stand.add()
    await _pause(stand)
    await _pause(stand, paused=False)
    assert await stand.claim_ids() == [id]


async def test_a_paused_stream_still_takes_messages(stand: Stand) -> None:
    await _pause(stand)
    id = await stand.add()
    assert await stand.status(id) is JobStatus.QUEUED


async def test_other_streams_are_not_paused(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.add()
    there = await stand.add(source=elsewhere)
    await _pause(stand)
    assert await stand.claim_ids(sources=[stand.source, elsewhere]) == [there]


async def test_what_runs_in_a_paused_stream_is_settled_as_ever(stand: Stand) -> None:
    done, returned = await stand.running(), await stand.running()
    await _pause(stand)
    await stand.settle_done(done, value=b"42")
    await stand.settle(returned, Released())
    assert await stand.claim() == []
    await _pause(stand, paused=False)
    assert await stand.claim_ids() == [returned.id]


async def test_a_paused_stream_hands_out_neither_suspect_nor_returned_work(stand: Stand) -> None:
    suspect, returned = await stand.running(), await stand.running()
    await stand.settle(returned, Released())
    await stand.lose(suspect)
    await _pause(stand)
    assert await stand.claim() == []


async def test_leases_run_out_in_a_paused_stream_too(stand: Stand) -> None:
    claim = await stand.running()
    await _pause(stand)
    await stand.advance(LEASE + 1)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_counts_tell_that_a_stream_is_paused(stand: Stand) -> None:
    assert not (await stand.counts()).paused
    await _pause(stand)
    assert (await stand.counts()).paused


async def test_pausing_twice_and_resuming_twice_is_harmless(stand: Stand) -> None:
    id = await stand.add()
    for paused in (True, True, False, False):
        await _pause(stand, paused=paused)
    assert await stand.claim_ids() == [id]


@queue_and_group
async def test_pause_and_resume_are_announced_to_every_process(stand: Stand) -> None:
    here: list[ControlMessage] = []
    there: list[ControlMessage] = []
    stops = [stand.backend.listen(here.append), (await stand.other()).listen(there.append)]
    await _pause(stand)
    await _pause(stand, paused=False)
    orders = [PauseNotice(stand.stream, True), PauseNotice(stand.stream, False)]
    await wait_until(lambda: here == orders and there == orders)
    for stop in stops:
        stop()


async def test_a_worker_that_missed_a_pause_hears_of_it_at_its_next_beat(stand: Stand) -> None:
    await _pause(stand)
    other = await stand.other()
    assert (await beat(other, worker_info())).paused == {stand.stream}
    await _pause(stand, paused=False)
    assert (await beat(other, worker_info())).paused == frozenset()


async def test_a_stream_may_be_paused_before_anything_is_in_it(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.backend.pause(elsewhere, paused=True)
    await stand.add(source=elsewhere)
    assert await stand.claim(sources=[elsewhere]) == []


# --- purge ------------------------------------------------------------------------------------------------


async def test_a_purge_ends_what_is_queued_scheduled_and_retrying(stand: Stand) -> None:
    failed, snoozed, returned = [await stand.running() for _ in range(3)]
    await stand.retry(failed)
    await stand.settle(snoozed, Snoozed(FRESH, microseconds(10)))
    await stand.settle(returned, Released())
    ids = [failed.id, snoozed.id, returned.id, await stand.add(), await stand.add(delay=10)]
    assert await _purge(stand) == 5
    assert [await stand.status(id) for id in ids] == [JobStatus.CANCELLED] * 5
    counts = await stand.counts()
    assert (counts.queued, counts.scheduled, counts.retrying) == (0, 0, 0)


async def test_a_purge_ends_suspects_too(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    assert await _purge(stand) == 1
    assert await stand.claim() == []


async def test_what_was_purged_neither_runs_nor_becomes_due(stand: Stand) -> None:
    await stand.add()
    await stand.add(delay=10)
    await _purge(stand)
    await stand.advance(11)
    assert await stand.promote() == Promoted(0, None)
    assert await stand.claim() == []


async def test_a_purge_leaves_running_and_dead_messages(stand: Stand) -> None:
    dead = await stand.running()
    await stand.die(dead)
    running = await stand.running()
    assert await _purge(stand) == 0
    assert await stand.status(running.id) is JobStatus.RUNNING
    assert await stand.status(dead.id) is JobStatus.DEAD
    assert await stand.settle_done(running) == "kept"


async def test_a_purge_takes_no_more_than_its_limit(stand: Stand) -> None:
    await stand.append(*[stand.message(delay=delay) for delay in (0, 0, 0, 10, 10)])
    assert [await _purge(stand, limit=2) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_purge_releases_unique_keys(stand: Stand) -> None:
    finished, started = UniqueKey("one", "finished"), UniqueKey("two", "started")
    await stand.add(unique=finished)
    await stand.add(unique=started, delay=10)
    await _purge(stand)
    await stand.add(unique=finished)
    await stand.add(unique=started)


async def test_the_end_records_of_a_purge_stay_for_their_time(stand: Stand) -> None:
    id = await stand.add()
    await stand.backend.purge(stand.stream, ttl_us=microseconds(60), limit=10)
    await stand.advance(50)
    assert await stand.status(id) is JobStatus.CANCELLED
    await stand.advance(11)
    assert await stand.status(id) is JobStatus.UNKNOWN


async def test_a_purge_without_end_records_leaves_nothing(stand: Stand) -> None:
    id = await stand.add()
    await stand.backend.purge(stand.stream, ttl_us=0, limit=10)
    assert await stand.status(id) is JobStatus.UNKNOWN


async def test_a_purge_leaves_other_streams_alone(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    id = await stand.add(source=elsewhere)
    await _purge(stand)
    assert await stand.claim_ids(sources=[elsewhere]) == [id]


async def test_a_paused_stream_can_be_purged(stand: Stand) -> None:
    await stand.add()
    await _pause(stand)
    assert await _purge(stand) == 1


async def test_an_empty_stream_is_purged_of_nothing(stand: Stand) -> None:
    assert await _purge(stand) == 0


async def test_messages_after_a_purge_run_as_ever(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(100)])
    await _purge(stand)
    id = await stand.add()
    assert (await stand.counts()).queued == 1
    assert await stand.claim_ids() == [id]


async def _pause(stand: Stand, *, paused: bool = True) -> None:
    await stand.backend.pause(stand.stream, paused=paused)


async def _purge(stand: Stand, *, limit: int = 100) -> int:
    return await stand.backend.purge(stand.stream, ttl_us=HOUR_US, limit=limit)


async def test_purges_leave_end_records_of_some_within_the_time_that_these_stay(stand: Stand) -> None:
    """On a queue in parts, each part leaves this number."""
    ids = [await stand.add() for _ in range(40 * stand.parts)]
    waited = ids[-1]
    other = await stand.other()
    waiter = asyncio.create_task(other.wait_for_end(stand.stream, waited, 10))
    assert await other.wait_for_end(stand.stream, waited, 0.1) is None  # by now the first one waits as well
    for _ in range(4):  # in steps, and again what has come meanwhile
        while await stand.backend.purge(stand.stream, ttl_us=HOUR_US, limit=7, end_records=3):
            pass
        ids += [await stand.add() for _ in range(5)]
    record = await waiter
    assert record is not None
    assert record.status is JobStatus.CANCELLED
    await stand.backend.purge(stand.stream, ttl_us=HOUR_US, limit=100, end_records=3)
    await stand.advance(61)
    statuses = [await stand.status(id) for id in ids]
    assert set(statuses) <= {JobStatus.CANCELLED, JobStatus.UNKNOWN}
    assert 0 < statuses.count(JobStatus.CANCELLED) <= 4 * stand.parts
    await stand.advance(3600)
    last = await stand.add()
    await stand.backend.purge(stand.stream, ttl_us=HOUR_US, limit=100, end_records=3)
    await stand.advance(61)
    assert await stand.status(last) is JobStatus.CANCELLED
