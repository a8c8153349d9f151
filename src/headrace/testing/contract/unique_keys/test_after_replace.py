"""What follows when a message was replaced: late outcomes, waiting callers, repeats of the batch, limits."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.core.messages.message import UniqueKey
from headrace.core.messages.outcome import Verdict
from headrace.core.records.answers import Answer
from headrace.core.records.record import JobStatus
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, kept, retry
from headrace.testing.contract.kit.waits import LONG, started

from .kinds import STARTED
from .replacing import replace, replacing

SLOW: Final = Constraints((LimitKey("slow"),))
OTHER: Final = Constraints((LimitKey("other"),), "acme")


# --- what follows ------------------------------------------------------------------------------------------


async def test_a_late_success_of_an_earlier_run_does_not_end_a_replaced_message(stand: Stand) -> None:
    claim = await stand.running(unique=UniqueKey(STARTED.key))
    await stand.lose(claim)
    await replace(stand, claim.id, body=b"new")
    assert await stand.settle_done(claim) is Verdict.GONE
    assert (await stand.claim_one(claim.id)).body == b"new"


async def test_a_late_success_does_not_end_a_replaced_message_that_runs(stand: Stand) -> None:
    claim = await stand.running(unique=UniqueKey(STARTED.key))
    await stand.lose(claim)
    await replace(stand, claim.id)
    again = await stand.claim_one(claim.id)
    assert await stand.settle_done(claim) is Verdict.GONE
    assert await stand.settle_done(again) is Verdict.KEPT


async def test_a_caller_that_waits_for_the_end_waits_for_the_replaced_message(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    waiting = await started(stand.backend.wait_for_end(stand.stream, id, LONG))
    await replace(stand, id)
    assert not waiting.done()
    await stand.settle(await stand.claim_one(id), kept(b"42"))
    record = await waiting
    assert record is not None
    assert record.result == b"42"


async def test_a_claim_that_waits_gets_the_replaced_message(stand: Stand) -> None:
    id = await stand.add(unique=STARTED, delay=100)
    waiting = await started(stand.claim(wait=LONG))
    await replace(stand, id)
    assert [claim.id for claim in await waiting] == [id]


async def test_a_replaced_message_can_expire(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    await replace(stand, id, lifetime=10)
    await stand.advance(11)
    assert await stand.status(id) is JobStatus.EXPIRED


async def test_progress_of_an_earlier_run_is_forgotten(stand: Stand) -> None:
    claim = await stand.running(unique=UniqueKey(STARTED.key))
    await stand.lose(claim)
    await replace(stand, claim.id)
    assert (await stand.look(claim.id)).progress is None
    await stand.settle_done(await stand.claim_one(claim.id))


# --- parts -------------------------------------------------------------------------------------------------


async def test_a_message_of_an_older_generation_is_replaced(stand: Stand) -> None:
    id = await stand.add(unique=STARTED, delay=100, body=b"old")
    await stand.split(3)
    await replace(stand, id, body=b"new", delay=100)
    await replace(stand, id, body=b"newer")
    assert (await stand.counts()).queued == 1
    assert (await stand.counts()).scheduled == 0
    assert (await stand.claim_one(id)).body == b"newer"


async def test_a_running_message_of_an_older_generation_stays(stand: Stand) -> None:
    claim = await stand.running(unique=STARTED)
    await stand.split(3)
    message = replacing(stand)
    assert await stand.append(message) == [Answer(message.id)]
    assert await stand.settle_done(claim) is Verdict.KEPT


# --- repeats -----------------------------------------------------------------------------------------------


async def test_a_repeat_of_the_batch_does_not_replace_again(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    batch = stand.batch(replacing(stand, body=b"new"), producer="another")
    assert await stand.backend.append(batch) == [Answer(id, "replaced")]
    await replace(stand, id, body=b"newer")
    assert await (await stand.other()).append(batch) == [Answer(id, "replaced")]
    assert (await stand.claim_one(id)).body == b"newer"
    assert await stand.backend.append(batch) == [Answer(id, "replaced")]
    assert await stand.claim() == []


async def test_what_a_relay_sends_again_after_long_does_not_replace_again(stand: Stand) -> None:
    """A relay may be away for longer than a producer's last batch is remembered."""
    id = await stand.add(unique=STARTED, delay=LEASE * 100)
    message = msgspec.structs.replace(replacing(stand, fresh=False), expired_ttl_us=HOUR_US)
    assert await stand.append(message) == [Answer(id, "replaced")]
    assert await stand.status(message.id) is JobStatus.CANCELLED
    await replace(stand, id, body=b"newer")
    await stand.advance(601)
    assert await stand.append(message) == [Answer(message.id, "duplicate")]
    assert (await stand.claim_one(id)).body == b"newer"
    await stand.advance(3600)
    assert await stand.status(message.id) is JobStatus.UNKNOWN


# --- limits ------------------------------------------------------------------------------------------------


async def test_in_a_full_queue_a_message_is_still_replaced(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    message = replacing(stand, body=b"new")
    assert await stand.append(message, limit=1) == [Answer(id, "replaced")]
    later = replacing(stand, delay=10)
    assert await stand.append(later, limit=1) == [Answer(id, "replaced")]


@pytest.mark.whole("a limit holds for each part")
async def test_a_retrying_owner_takes_up_no_room_and_is_not_replaced_in_a_full_queue(stand: Stand) -> None:
    claim = await stand.running(unique=UniqueKey(STARTED.key))
    await stand.retry(claim)
    await stand.add()
    message = replacing(stand)
    assert await stand.append(message, limit=1) == [Answer(message.id, "full")]
    assert await stand.status(claim.id) is JobStatus.RETRYING
    assert await stand.append(message, limit=2) == [Answer(claim.id, "replaced")]


@pytest.mark.whole("limits hold for each part")
@pytest.mark.usefixtures("limiting")
async def test_a_replaced_message_leaves_its_line(stand: Stand) -> None:
    id = await stand.add(unique=STARTED, constraints=SLOW)
    await replace(stand, id, constraints=OTHER)
    [claim] = await stand.claim()
    assert (claim.id, claim.constraints) == (id, OTHER)
    assert (await stand.counts()).queued == 0
    await stand.settle_done(claim)
    id = await stand.add(unique=STARTED, constraints=SLOW)
    await replace(stand, id)
    assert (await stand.claim_one(id)).constraints is None


@pytest.mark.whole("limits hold for each part")
@pytest.mark.usefixtures("limiting")
async def test_a_plain_message_can_be_replaced_by_one_with_constraints(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    await replace(stand, id, constraints=SLOW)
    assert await stand.claim(constrained=0) == []
    assert [claim.constraints for claim in await stand.claim()] == [SLOW]


@pytest.mark.whole("ordered jobs are not for parts")
@pytest.mark.usefixtures("limiting")
async def test_a_replaced_message_passes_its_order_key_on(stand: Stand) -> None:
    first = await stand.add(unique=STARTED, key="account-1")
    second = await stand.add(key="account-1")
    await replace(stand, first, key="account-1")
    claim = await stand.claim_one(second)
    assert await stand.claim() == []
    await stand.settle_done(claim)
    await stand.claim_one(first)


@pytest.mark.whole("ordered jobs are not for parts")
@pytest.mark.usefixtures("limiting")
async def test_a_parked_message_is_replaced(stand: Stand) -> None:
    await stand.add(key="account-1")
    parked = await stand.add(unique=STARTED, key="account-1", body=b"old")
    await replace(stand, parked, key="account-2", body=b"new")
    assert {claim.id: claim.body for claim in await stand.claim()}[parked] == b"new"
    assert (await stand.counts()).queued == 0


@pytest.mark.whole("ordered jobs are not for parts")
@pytest.mark.usefixtures("limiting")
async def test_a_message_without_an_order_key_replaces_one_with_it(stand: Stand) -> None:
    first = await stand.add(unique=STARTED, key="account-1")
    second = await stand.add(key="account-1")
    await replace(stand, first)
    assert set(await stand.claim_ids()) == {first, second}


async def test_the_schedule_of_a_retry_is_forgotten(stand: Stand) -> None:
    claim = await stand.running(unique=UniqueKey(STARTED.key))
    await stand.settle(claim, retry(delay=5))
    await replace(stand, claim.id, delay=50)
    await stand.advance(6)
    assert (await stand.promote()).count == 0
    await stand.advance(50)
    assert (await stand.promote()).count == 1
    assert await stand.claim_ids() == [claim.id]
