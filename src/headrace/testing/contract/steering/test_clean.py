"""Removing messages by their state, and freeing unique keys."""

from __future__ import annotations

import pytest

from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.core.messages.message import UniqueKey
from headrace.core.messages.outcome import Cancelled, Verdict
from headrace.core.records.record import JobStatus
from headrace.testing.contract.kit.stand import HOUR_US, Stand, kept
from headrace.testing.contract.kit.waits import LONG, started
from headrace.testing.contract.unique_keys.kinds import FINISHED, every_kind

WAITING = [JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.RETRYING]
ENDED = [JobStatus.SUCCEEDED, JobStatus.CANCELLED, JobStatus.DEAD]


async def in_state(stand: Stand, status: JobStatus) -> str:
    """A message with a unique key that is in this state."""
    if status is JobStatus.QUEUED:
        return await stand.add(unique=FINISHED)
    if status is JobStatus.SCHEDULED:
        return await stand.add(unique=FINISHED, delay=100)
    claim = await stand.running(unique=FINISHED)
    match status:
        case JobStatus.RETRYING:
            await stand.retry(claim, delay=100)
        case JobStatus.SUCCEEDED:
            await stand.settle(claim, kept(b"42"))
        case JobStatus.CANCELLED:
            await stand.settle(claim, Cancelled(HOUR_US))
        case JobStatus.DEAD:
            await stand.die(claim)
    return claim.id


async def clean(stand: Stand, status: JobStatus, *ids: str, ttl_us: int = HOUR_US) -> int:
    return await stand.backend.clean(stand.stream, ids, status=status, ttl_us=ttl_us)


@pytest.mark.parametrize("status", [*WAITING, JobStatus.RUNNING])
async def test_what_waits_or_runs_ends_as_cancelled(stand: Stand, status: JobStatus) -> None:
    id = await in_state(stand, status)
    waiting = await started(stand.backend.wait_for_end(stand.stream, id, LONG))
    assert await clean(stand, status, id, "nobody") == 1
    record = await waiting
    assert record is not None
    assert record.status is JobStatus.CANCELLED
    await stand.add(unique=FINISHED)
    assert await clean(stand, status, id) == 0


@pytest.mark.parametrize("status", ENDED)
async def test_nothing_is_left_of_what_is_over(stand: Stand, status: JobStatus) -> None:
    id = await in_state(stand, status)
    assert await clean(stand, status, id) == 1
    assert await stand.status(id) is JobStatus.UNKNOWN
    assert await clean(stand, status, id) == 0
    await stand.add(id)


@pytest.mark.parametrize("status", [*WAITING, JobStatus.RUNNING, *ENDED])
async def test_a_message_in_another_state_stays(stand: Stand, status: JobStatus) -> None:
    id = await in_state(stand, status)
    for other in {*WAITING, JobStatus.RUNNING, *ENDED} - {status}:
        assert await clean(stand, other, id) == 0
    assert await stand.status(id) is status


async def test_a_message_that_was_taken_from_its_worker_is_not_settled(stand: Stand) -> None:
    claim = await stand.running()
    assert await clean(stand, JobStatus.RUNNING, claim.id, ttl_us=0) == 1
    assert await stand.settle_done(claim) is Verdict.GONE
    assert (await stand.counts()).running == 0


async def test_many_are_removed_in_one_step(stand: Stand) -> None:
    ids = [await stand.add() for _ in range(20)]
    assert await clean(stand, JobStatus.QUEUED, *ids[:15]) == 15
    assert sorted(await stand.claim_ids()) == sorted(ids[15:])


@pytest.mark.whole("limits hold for each part")
@pytest.mark.usefixtures("limiting")
async def test_what_is_removed_leaves_its_line_and_gives_its_slot_back(stand: Stand) -> None:
    limited = Constraints((LimitKey("slow"),))
    ids = [await stand.add(constraints=limited) for _ in range(3)]
    claims = await stand.claim(1)
    assert await clean(stand, JobStatus.RUNNING, claims[0].id) == 1
    left = [id for id in ids if id != claims[0].id]
    assert await clean(stand, JobStatus.QUEUED, left[0]) == 1
    assert await stand.claim_ids() == left[1:]


@pytest.mark.whole("ordered jobs are not for parts")
@pytest.mark.usefixtures("limiting")
async def test_what_is_removed_passes_its_order_key_on(stand: Stand) -> None:
    first = await stand.add(key="account-1")
    second = await stand.add(key="account-1")
    assert await clean(stand, JobStatus.QUEUED, first) == 1
    assert await stand.claim_ids() == [second]


# --- keys -------------------------------------------------------------------------------------------------


@every_kind
async def test_a_key_that_was_freed_can_be_taken(stand: Stand, unique: UniqueKey) -> None:
    assert not await stand.backend.release_key(stand.stream, unique.key)
    holder = await stand.add(unique=unique)
    assert await stand.backend.release_key(stand.stream, FINISHED.key)
    assert not await stand.backend.release_key(stand.stream, FINISHED.key)
    second = await stand.add(unique=FINISHED)
    claims = {claim.id: claim for claim in await stand.claim()}
    await stand.settle_done(claims[holder])
    (answer,) = await stand.append(stand.message(unique=FINISHED))
    assert answer.id == second
