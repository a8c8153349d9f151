"""A producer sends a batch again when its answer was lost: nothing changes, and the answer is the same."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import UniqueKey
from headrace.core.records.answers import Answer
from headrace.testing.contract.kit.stand import Stand


async def test_a_batch_sent_again_makes_no_second_message(stand: Stand) -> None:
    batch = stand.batch(stand.message(), stand.message())
    first = await stand.backend.append(batch)
    assert await stand.backend.append(batch) == first
    assert (await stand.counts()).queued == 2


async def test_a_batch_sent_again_is_answered_as_before_and_not_as_a_duplicate(stand: Stand) -> None:
    message = stand.message()
    batch = stand.batch(message)
    await stand.backend.append(batch)
    assert await stand.backend.append(batch) == [Answer(message.id, "accepted")]


async def test_a_batch_sent_again_over_another_connection_is_recognised(stand: Stand) -> None:
    message = stand.message()
    batch = stand.batch(message)
    await stand.backend.append(batch)
    assert await (await stand.other()).append(batch) == [Answer(message.id, "accepted")]
    assert (await stand.counts()).queued == 1


async def test_a_batch_sent_again_after_its_jobs_are_done_does_not_run_them_twice(stand: Stand) -> None:
    batch = stand.batch(stand.message())
    first = await stand.backend.append(batch)
    await stand.settle_done(await stand.claim_one())
    assert await stand.backend.append(batch) == first
    assert await stand.claim() == []


@pytest.mark.whole("a limit holds for each part")
async def test_a_batch_sent_again_keeps_its_duplicates_and_refusals(stand: Stand) -> None:
    known = await stand.add()
    batch = stand.batch(stand.message(known), stand.message(), stand.message(), limit=2)
    first = await stand.backend.append(batch)
    assert [answer.verdict for answer in first] == ["duplicate", "accepted", "full"]
    for claim in await stand.claim():
        await stand.settle_done(claim)
    assert await stand.backend.append(batch) == first
    assert await stand.claim() == []


async def test_a_batch_of_scheduled_messages_sent_again_is_recognised(stand: Stand) -> None:
    batch = stand.batch(stand.message(delay=10))
    first = await stand.backend.append(batch)
    assert await stand.backend.append(batch) == first
    assert (await stand.counts()).scheduled == 1


async def test_a_batch_with_unique_keys_sent_again_is_answered_as_before(stand: Stand) -> None:
    unique = UniqueKey("nightly")
    batch = stand.batch(stand.message(unique=unique), stand.message(unique=unique))
    first = await stand.backend.append(batch)
    assert [answer.verdict for answer in first] == ["accepted", "duplicate"]
    assert await stand.backend.append(batch) == first


async def test_the_next_number_is_a_new_batch(stand: Stand) -> None:
    await stand.backend.append(stand.batch(stand.message(), number=1))
    await stand.backend.append(stand.batch(stand.message(), number=2))
    assert (await stand.counts()).queued == 2


async def test_numbers_may_leave_gaps(stand: Stand) -> None:
    await stand.backend.append(stand.batch(stand.message(), number=1))
    batch = stand.batch(stand.message(), number=17)
    first = await stand.backend.append(batch)
    assert await stand.backend.append(batch) == first
    assert (await stand.counts()).queued == 2


async def test_each_producer_counts_for_itself(stand: Stand) -> None:
    first, second = stand.message(), stand.message()
    await stand.backend.append(stand.batch(first, producer="one", number=1))
    answers = await stand.backend.append(stand.batch(second, producer="two", number=1))
    assert answers == [Answer(second.id)]
    assert (await stand.counts()).queued == 2


async def test_a_producer_counts_for_each_stream(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.backend.append(stand.batch(stand.message(), number=1))
    message = stand.message()
    answers = await stand.backend.append(stand.batch(message, source=elsewhere, number=1))
    assert answers == [Answer(message.id)]
    assert (await stand.counts(source=elsewhere)).queued == 1


async def test_a_batch_is_remembered_for_ten_minutes(stand: Stand) -> None:
    batch = stand.batch(stand.message())
    first = await stand.backend.append(batch)
    await stand.settle_done(await stand.claim_one())
    await stand.advance(590)
    await stand.backend.prune(limit=100)
    assert await stand.backend.append(batch) == first
    assert await stand.claim() == []


async def test_an_empty_batch_sent_again_is_harmless(stand: Stand) -> None:
    batch = stand.batch()
    assert await stand.backend.append(batch) == []
    assert await stand.backend.append(batch) == []
