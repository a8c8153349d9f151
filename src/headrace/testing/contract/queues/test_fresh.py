"""Messages with new ids, as bulk sends have them: a store's faster path for them changes nothing."""

from __future__ import annotations

import msgspec
import pytest

from headrace.core.errors import Moved
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import HIGH, LOW, NORMAL, Message, UniqueKey, are_alike
from headrace.core.records.answers import Answer
from headrace.core.records.record import JobStatus
from headrace.engine.streams.layouts import StoredLayouts
from headrace.testing.contract.kit.stand import Stand


def fresh(message: Message) -> Message:
    return msgspec.structs.replace(message, fresh=True)


def bulk(stand: Stand, count: int, *, priority: int = NORMAL) -> list[Message]:
    """Messages of one kind, with bodies of every length from 0."""
    messages = [
        fresh(stand.message(task="mail.send", body=bytes([number % 256]) * number, priority=priority))
        for number in range(count)
    ]
    assert are_alike(messages)
    return messages


async def test_each_is_accepted_under_its_own_id(stand: Stand) -> None:
    messages = bulk(stand, 50)
    assert await stand.append(*messages) == [Answer(message.id) for message in messages]
    assert (await stand.counts()).queued == 50


@pytest.mark.whole("parts have no common order")
async def test_they_are_claimed_in_their_order_with_their_bodies(stand: Stand) -> None:
    messages = bulk(stand, 50)
    await stand.append(*messages)
    claimed = [(claim.id, claim.body) for claim in await stand.claim()]
    assert claimed == [(message.id, message.body) for message in messages]
    assert (await stand.look(messages[-1].id)).task == "mail.send"


@pytest.mark.parametrize("priority", [HIGH, NORMAL, LOW])
async def test_they_keep_their_priority(stand: Stand, priority: int) -> None:
    [message] = bulk(stand, 1, priority=priority)
    await stand.append(message)
    record = await stand.look(message.id)
    assert (record.status, record.priority, record.body) == (JobStatus.QUEUED, priority, b"")


async def test_a_batch_sent_again_makes_no_second_message(stand: Stand) -> None:
    batch = stand.batch(*bulk(stand, 5))
    first = await stand.backend.append(batch)
    assert await stand.backend.append(batch) == first
    assert await (await stand.other()).append(batch) == first
    assert (await stand.counts()).queued == 5


async def test_a_batch_sent_again_after_its_jobs_are_done_does_not_run_them_twice(stand: Stand) -> None:
    batch = stand.batch(*bulk(stand, 2))
    first = await stand.backend.append(batch)
    for claim in await stand.claim():
        await stand.settle_done(claim)
    assert await stand.backend.append(batch) == first
    assert await stand.claim() == []


async def test_an_id_that_was_fresh_is_known_from_then_on(stand: Stand) -> None:
    [message] = bulk(stand, 1)
    await stand.append(message)
    again = msgspec.structs.replace(message, fresh=False)
    assert await stand.append(again) == [Answer(message.id, "duplicate")]


@pytest.mark.whole("a limit holds for each part")
async def test_a_limit_holds_for_them(stand: Stand) -> None:
    answers = await stand.append(*bulk(stand, 3), limit=2)
    assert [answer.verdict for answer in answers] == ["accepted", "accepted", "full"]


async def test_options_hold_for_them(stand: Stand) -> None:
    unique = UniqueKey("nightly")
    first, second, later = (
        fresh(stand.message(unique=unique)),
        fresh(stand.message(unique=unique)),
        fresh(stand.message(delay=10)),
    )
    answers = await stand.append(first, second, later)
    assert answers == [Answer(first.id), Answer(first.id, "duplicate"), Answer(later.id)]
    assert await stand.status(later.id) is JobStatus.SCHEDULED
    assert await stand.claim_ids() == [first.id]


@pytest.mark.whole("parts have no common order")
async def test_those_of_several_tasks_keep_them(stand: Stand) -> None:
    messages = [fresh(stand.message(task=f"task-{number % 3}")) for number in range(9)]
    await stand.append(*messages)
    assert await stand.claim_ids() == [message.id for message in messages]
    for message in messages:
        assert (await stand.look(message.id)).task == message.task


@pytest.mark.whole("parts have no common order")
async def test_what_was_sent_after_the_clock_was_moved_comes_after_the_rest(stand: Stand) -> None:
    first = bulk(stand, 3)
    await stand.append(*first)
    await stand.advance(30)
    second = bulk(stand, 3)
    await stand.append(*second)
    assert await stand.claim_ids() == [message.id for message in [*first, *second]]


@pytest.mark.whole("parts have no common order")
async def test_an_id_of_another_length_is_kept_as_it_is(stand: Stand) -> None:
    messages = [fresh(stand.message(id)) for id in ("short", "x" * 100, new_id())]
    await stand.append(*messages)
    assert await stand.claim_ids() == [message.id for message in messages]


# --- alone, which stores may have a shorter way for --------------------------------------------------------


async def test_one_alone_comes_as_it_was_sent(stand: Stand) -> None:
    message = fresh(stand.message(task="größe", body=b"\r\n$0\r\n"))
    assert await stand.append(message) == [Answer(message.id)]
    claim = await stand.claim_one()
    assert (claim.id, claim.body) == (message.id, message.body)
    assert (await stand.look(message.id)).task == message.task


async def test_one_alone_that_is_sent_again_is_recognised_for_ten_minutes(stand: Stand) -> None:
    batch = stand.batch(*bulk(stand, 1), number=10)
    first = await stand.backend.append(batch)
    assert await (await stand.other()).append(batch) == first
    await stand.settle_done(await stand.claim_one())
    await stand.advance(590)
    assert await stand.backend.append(batch) == first
    assert await stand.claim() == []


async def test_those_alone_are_numbered_as_all_batches_are(stand: Stand) -> None:
    for number in (9, 10, 11, 100):
        await stand.backend.append(stand.batch(*bulk(stand, 1 + number % 2), number=number))
    assert (await stand.counts()).queued == 6


@pytest.mark.whole("a part is sealed by itself")
async def test_a_sealed_part_takes_none_alone_but_knows_the_last(stand: Stand) -> None:
    first, second = (stand.batch(*bulk(stand, 1), number=number) for number in (1, 2))
    answers = await stand.inner.append(first)
    await StoredLayouts(stand.inner).seal(stand.stream)
    assert await stand.inner.append(first) == answers
    with pytest.raises(Moved):
        await stand.inner.append(second)
    assert (await stand.counts()).queued == 1
