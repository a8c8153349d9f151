"""Messages that replace the waiting owner of their unique key."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.messages.message import FRESH, HIGH, LOW, Batch, UniqueKey
from headrace.core.messages.outcome import Done, Outcome, Released, Snoozed, Verdict
from headrace.core.records.answers import Answer, CancelAnswer
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.kit.stand import HOUR_US, Stand, kept

from .kinds import STARTED, every_kind, owner_of
from .replacing import replace, replacing

# --- what is replaced --------------------------------------------------------------------------------------


async def test_without_an_owner_the_message_is_accepted_and_holds_its_key(stand: Stand) -> None:
    message = replacing(stand)
    assert await stand.append(message) == [Answer(message.id)]
    assert await owner_of(stand, STARTED) == message.id


@every_kind
async def test_a_queued_owner_gets_everything_of_the_new_message_but_its_id(
    stand: Stand, unique: UniqueKey
) -> None:
    id = await stand.add(unique=unique, body=b"old", task="greet", priority=LOW, lifetime=10)
    await replace(stand, id, body=b"new", task="part", priority=HIGH)
    assert (await stand.counts()).queued == 1
    await stand.advance(20)
    record = await stand.look(id)
    assert (record.task, record.body, record.priority) == ("part", b"new", HIGH)
    claim = await stand.claim_one(id)
    assert (claim.body, claim.priority, claim.state) == (b"new", HIGH, FRESH)
    assert await stand.claim() == []


async def test_the_new_message_leaves_nothing_of_its_own_id(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    message = replacing(stand)
    await stand.append(message)
    assert await stand.status(message.id) is JobStatus.UNKNOWN
    await stand.settle_done(await stand.claim_one(id))


async def test_a_replaced_message_goes_to_the_end_of_its_lane(stand: Stand) -> None:
    first = await stand.add(unique=STARTED)
    second = await stand.add()
    await replace(stand, first)
    assert set(await stand.claim_ids()) == {first, second}
    if stand.parts == 1:
        first = await stand.add(unique=STARTED)
        second = await stand.add()
        await replace(stand, first)
        assert await stand.claim_ids() == [second, first]


async def test_a_scheduled_owner_waits_for_its_new_due_time(stand: Stand) -> None:
    id = await stand.add(unique=STARTED, delay=5)
    await stand.advance(4)
    await replace(stand, id, delay=5, body=b"new")
    await stand.advance(4)
    assert (await stand.promote()).count == 0
    assert await stand.status(id) is JobStatus.SCHEDULED
    await stand.advance(2)
    assert (await stand.promote()).count == 1
    assert (await stand.claim_one(id)).body == b"new"


async def test_a_queued_owner_can_be_scheduled_and_a_scheduled_one_queued(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    await replace(stand, id, delay=5)
    assert await stand.status(id) is JobStatus.SCHEDULED
    assert await stand.claim() == []
    await replace(stand, id)
    assert await stand.status(id) is JobStatus.QUEUED
    await stand.claim_one(id)
    assert (await stand.promote()).count == 0


async def test_a_retrying_owner_begins_anew(stand: Stand) -> None:
    claim = await stand.running(unique=UniqueKey(STARTED.key))
    await stand.retry(claim)
    await replace(stand, claim.id, body=b"new")
    again = await stand.claim_one(claim.id)
    assert (again.state, again.body) == (FRESH, b"new")
    await stand.advance(20)
    assert (await stand.promote()).count == 0


@pytest.mark.parametrize(
    "outcome", [Released(), Snoozed(FRESH, microseconds(10))], ids=["released", "snoozed"]
)
async def test_an_owner_that_was_handed_back_is_replaced(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running(unique=UniqueKey(STARTED.key))
    await stand.settle(claim, outcome)
    await replace(stand, claim.id, body=b"new")
    again = await stand.claim_one(claim.id)
    assert (again.state, again.body) == (FRESH, b"new")


async def test_child_work_becomes_other_work_and_back(stand: Stand) -> None:
    id = await stand.add(unique=STARTED, child=True)
    await replace(stand, id)
    assert await stand.claim_ids(children=0) == [id]
    id = await stand.add(unique=STARTED)
    await replace(stand, id, child=True)
    assert await stand.claim_ids(children=0) == []
    assert await stand.claim_ids() == [id]


async def test_a_message_replaces_another_one_of_its_batch(stand: Stand) -> None:
    first, second, third = (replacing(stand, body=bytes([number])) for number in range(3))
    answers = await stand.append(first, second, stand.message(), third)
    assert [answer.verdict for answer in answers] == ["accepted", "replaced", "accepted", "replaced"]
    assert {answers[1].id, answers[3].id} == {first.id}
    assert (await stand.counts()).queued == 2
    claims = {claim.id: claim.body for claim in await stand.claim()}
    assert claims[first.id] == third.body


async def test_a_replacement_can_be_replaced_by_other_processes(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    other = await stand.other()
    for number in range(3):
        batch = stand.batch(replacing(stand, body=bytes([number])), producer="another")
        assert await other.append(batch) == [Answer(id, "replaced")]
    assert (await stand.claim_one(id)).body == bytes([2])
    assert await stand.claim() == []


# --- what is not replaced ----------------------------------------------------------------------------------


@every_kind
async def test_a_running_owner_stays_and_the_new_message_waits_as_its_own(
    stand: Stand, unique: UniqueKey
) -> None:
    claim = await stand.running(unique=unique)
    message = replacing(stand, body=b"new")
    assert await stand.append(message) == [Answer(message.id)]
    await replace(stand, message.id, body=b"newer")
    assert await stand.settle_done(claim) is Verdict.KEPT
    assert await owner_of(stand, STARTED) == message.id
    assert (await stand.claim_one(message.id)).body == b"newer"


@every_kind
async def test_an_owner_that_is_over_is_not_replaced(stand: Stand, unique: UniqueKey) -> None:
    for outcome in (Done(), kept(b"42")):
        await stand.settle(await stand.running(unique=unique), outcome)
        message = replacing(stand)
        assert await stand.append(message) == [Answer(message.id)]
        await stand.settle_done(await stand.claim_one(message.id))


@every_kind
async def test_a_dead_owner_is_not_replaced(stand: Stand, unique: UniqueKey) -> None:
    claim = await stand.running(unique=unique)
    await stand.die(claim)
    message = replacing(stand)
    assert await stand.append(message) == [Answer(message.id)]
    assert await stand.status(claim.id) is JobStatus.DEAD


async def test_an_expired_owner_ends_and_the_new_message_is_accepted(stand: Stand) -> None:
    id = await stand.add(unique=STARTED, lifetime=10)
    await stand.advance(11)
    message = replacing(stand)
    assert await stand.append(message) == [Answer(message.id)]
    assert await stand.status(id) is JobStatus.EXPIRED
    assert await stand.claim_ids() == [message.id]


async def test_a_cancelled_owner_is_not_replaced(stand: Stand) -> None:
    id = await stand.add(unique=STARTED, delay=10)
    assert await stand.backend.cancel(stand.stream, id, ttl_us=HOUR_US) is CancelAnswer.REMOVED
    message = replacing(stand)
    assert await stand.append(message) == [Answer(message.id)]


@pytest.mark.whole("an id is looked for in the part of the unique key")
async def test_a_message_whose_id_is_known_replaces_nothing(stand: Stand) -> None:
    known = await stand.add()
    id = await stand.add(unique=STARTED, body=b"old")
    assert await stand.append(replacing(stand, id=known, fresh=False)) == [Answer(known, "duplicate")]
    assert (await stand.look(id)).body == b"old"


# --- at once -----------------------------------------------------------------------------------------------


async def test_processes_that_replace_and_claim_at_once_run_each_message_once(stand: Stand) -> None:
    answers: list[Answer] = []
    ran: list[str] = []
    producing = 2

    async def produce(backend: StreamRouter, name: str) -> None:
        nonlocal producing
        for number in range(1, 31):
            message = replacing(stand, delay=0 if number % 3 else 100)
            answers.extend(await backend.append(Batch(stand.inlet, name, number, [message])))
        producing -= 1

    async def consume(backend: StreamRouter, name: str) -> None:
        while producing:
            for claim in await stand.claim(5, consumer=name, by=backend):
                assert await stand.settle(claim, Done(), by=backend) is Verdict.KEPT
                ran.append(claim.id)
            await asyncio.sleep(0)

    here, there = stand.backend, await stand.other()
    await asyncio.gather(
        *(produce(here, "one"), produce(there, "two")),
        *(consume(here, "worker-1"), consume(there, "worker-2")),
    )
    await stand.advance(101)
    await stand.promote()
    for claim in await stand.claim():
        await stand.settle_done(claim)
        ran.append(claim.id)
    accepted = [answer.id for answer in answers if answer.verdict == "accepted"]
    assert sorted(ran) == sorted(accepted)
    assert {answer.verdict for answer in answers} <= {"accepted", "replaced"}
    assert {answer.id for answer in answers} == set(accepted)
