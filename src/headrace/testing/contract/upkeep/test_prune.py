"""Pruning: small steps delete what has passed its time, and nothing else."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import UniqueKey
from headrace.core.records.record import JobStatus
from headrace.testing.contract.kit.heartbeats import beat
from headrace.testing.contract.kit.stand import Stand, worker_info

#: Steps after which everything must be pruned.
STEPS = 100


async def test_end_records_whose_time_has_passed_are_forgotten(stand: Stand) -> None:
    for _ in range(3):
        await stand.settle_done(await stand.running(), value=b"42", ttl=60)
    await stand.advance(61)
    await _prune_all(stand)
    assert not await stand.backend.messages(stand.stream)


async def test_a_step_forgets_no_more_than_its_limit(stand: Stand) -> None:
    for _ in range(5):
        await stand.settle_done(await stand.running(), value=b"42", ttl=60)
    await stand.advance(61)
    assert await stand.backend.prune(limit=2) <= 2


async def test_there_is_nothing_to_forget_in_the_beginning(stand: Stand) -> None:
    assert await stand.backend.prune(limit=100) == 0


async def test_what_has_not_passed_stays(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle_done(claim, value=b"42", ttl=60)
    await beat(stand.backend, worker_info())
    await stand.advance(30)
    await _prune_all(stand)
    assert (await stand.look(claim.id)).result == b"42"
    assert await stand.backend.workers() == [worker_info()]


async def test_messages_are_never_pruned(stand: Stand) -> None:
    running, dead = await stand.running(unique=UniqueKey("key")), await stand.running()
    await stand.die(dead)
    queued, scheduled = await stand.add(), await stand.add(delay=10_000)
    await stand.advance(5000)
    await _prune_all(stand)
    statuses = [await stand.status(id) for id in (running.id, dead.id, queued, scheduled)]
    assert statuses == [JobStatus.RUNNING, JobStatus.DEAD, JobStatus.QUEUED, JobStatus.SCHEDULED]


async def test_everything_that_has_passed_is_forgotten_once(stand: Stand) -> None:
    await stand.add(unique=UniqueKey("key", "elapsed", 1_000_000))
    await stand.settle_done(await stand.claim_one(), value=b"42", ttl=60)
    await beat(stand.backend, worker_info())
    await stand.advance(3600)
    await _prune_all(stand)
    assert await stand.backend.prune(limit=100) == 0


async def test_an_id_used_again_is_not_pruned_with_its_old_end_record(stand: Stand) -> None:
    await stand.settle_done(await stand.running("chosen"), value=b"old", ttl=60)
    await stand.advance(61)
    await stand.settle_done(await stand.running("chosen"), value=b"new", ttl=600)
    await _prune_all(stand)
    assert (await stand.look("chosen")).result == b"new"


@pytest.mark.parametrize("limit", [1, 7])
async def test_small_steps_come_to_an_end(stand: Stand, limit: int) -> None:
    for _ in range(9):
        await stand.settle_done(await stand.running(), value=b"42", ttl=60)
    await stand.advance(61)
    await _prune_all(stand, limit=limit)
    assert not await stand.backend.messages(stand.stream)


async def _prune_all(stand: Stand, *, limit: int = 100) -> int:
    pruned = 0
    for _ in range(STEPS):
        step = await stand.backend.prune(limit=limit)
        assert step <= limit
        pruned += step
        if step == 0:
            return pruned
    raise AssertionError("pruning has no end")
