"""Appending: which messages are accepted, known already or refused, and where an accepted one goes."""

from __future__ import annotations

import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import FRESH, HIGH, LOW, NORMAL, Stream
from headrace.core.messages.outcome import Cancelled, Outcome
from headrace.core.records.answers import Answer
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.testing.contract.kit.stand import HOUR_US, Stand, dead, kept, retry


async def test_a_message_is_accepted_under_its_own_id(stand: Stand) -> None:
    message = stand.message()
    assert await stand.append(message) == [Answer(message.id, "accepted")]


async def test_an_accepted_message_is_queued(stand: Stand) -> None:
    id = await stand.add()
    assert await stand.status(id) is JobStatus.QUEUED


async def test_another_process_sees_what_was_appended(stand: Stand) -> None:
    id = await stand.add()
    record = await (await stand.other()).get(stand.stream, id)
    assert record is not None
    assert record.status is JobStatus.QUEUED


async def test_what_is_known_of_a_queued_message(stand: Stand) -> None:
    id = await stand.add(task="mail.send", body=b"to whom", priority=HIGH)
    record = await stand.look(id)
    assert (record.task, record.body, record.priority) == ("mail.send", b"to whom", HIGH)
    assert record.state == FRESH
    assert (record.claimed_us, record.worker, record.ended_us) == (0, "", 0)


@pytest.mark.parametrize("body", [b"", bytes(range(256)), b"\x00" * 10, b"x" * (1 << 20)])
async def test_bytes_come_back_as_they_were_sent(stand: Stand, body: bytes) -> None:
    await stand.add(body=body)
    assert (await stand.claim_one()).body == body


@pytest.mark.parametrize("id", ["a", "order:4711/eu@shop", "'\"\\%_*?[x]", "x" * 200])
async def test_an_id_may_be_chosen_freely(stand: Stand, id: str) -> None:
    await stand.add(id)
    claim = await stand.claim_one(id)
    await stand.settle_done(claim, value=b"fine")
    assert (await stand.look(id)).result == b"fine"


async def test_a_batch_is_answered_message_by_message(stand: Stand) -> None:
    messages = [stand.message() for _ in range(5)]
    assert await stand.append(*messages) == [Answer(message.id) for message in messages]


@pytest.mark.whole("parts have no common order")
async def test_a_batch_is_queued_in_its_order(stand: Stand) -> None:
    messages = [stand.message() for _ in range(20)]
    await stand.append(*messages)
    assert await stand.claim_ids() == [message.id for message in messages]


async def test_an_empty_batch_has_no_answers(stand: Stand) -> None:
    assert await stand.append() == []


async def test_five_hundred_messages_are_one_batch(stand: Stand) -> None:
    messages = [stand.message() for _ in range(500)]
    answers = await stand.append(*messages)
    assert {answer.verdict for answer in answers} == {"accepted"}
    assert (await stand.counts()).queued == 500


async def test_a_stream_that_was_not_declared_takes_messages(stand: Stand) -> None:
    elsewhere = Stream("queue", "elsewhere")
    id = await stand.add(source=elsewhere)
    await stand.backend.declare_stream(elsewhere, 30 * SECOND)
    assert await stand.claim_ids(sources=[elsewhere]) == [id]


# --- duplicate ids ----------------------------------------------------------------------------------------


async def test_an_id_that_is_queued_is_a_duplicate(stand: Stand) -> None:
    id = await stand.add()
    assert await stand.append(stand.message(id)) == [Answer(id, "duplicate")]
    assert (await stand.counts()).queued == 1


async def test_an_id_that_is_scheduled_is_a_duplicate(stand: Stand) -> None:
    id = await stand.add(delay=10)
    assert await stand.append(stand.message(id)) == [Answer(id, "duplicate")]
    assert await stand.status(id) is JobStatus.SCHEDULED


async def test_an_id_that_is_running_is_a_duplicate(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.append(stand.message(claim.id)) == [Answer(claim.id, "duplicate")]
    assert await stand.claim() == []


@pytest.mark.parametrize(
    "outcome",
    [retry(), dead(), kept(b"7"), Cancelled(HOUR_US)],
    ids=["retrying", "dead", "result is kept", "end record is kept"],
)
async def test_an_id_that_a_settlement_keeps_is_a_duplicate(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    await stand.settle(claim, outcome)
    before = await stand.look(claim.id)
    assert await stand.append(stand.message(claim.id)) == [Answer(claim.id, "duplicate")]
    assert await stand.look(claim.id) == before


async def test_an_id_that_was_recovered_is_a_duplicate(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    assert await stand.append(stand.message(claim.id)) == [Answer(claim.id, "duplicate")]


async def test_an_id_of_which_nothing_was_kept_is_free_again(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle_done(claim)
    assert await stand.append(stand.message(claim.id)) == [Answer(claim.id, "accepted")]
    assert await stand.claim_ids() == [claim.id]


async def test_an_id_is_free_again_once_its_result_has_passed(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle_done(claim, value=b"7", ttl=60)
    await stand.advance(61)
    assert await stand.append(stand.message(claim.id)) == [Answer(claim.id, "accepted")]
    assert await stand.status(claim.id) is JobStatus.QUEUED


async def test_an_id_is_free_again_once_its_dead_letter_is_discarded(stand: Stand) -> None:
    claim = await stand.running()
    await stand.die(claim)
    await stand.backend.discard(stand.stream, [claim.id])
    assert await stand.append(stand.message(claim.id)) == [Answer(claim.id, "accepted")]


async def test_an_id_twice_in_a_batch_is_taken_once(stand: Stand) -> None:
    first, second = stand.message("twin", body=b"first"), stand.message("twin", body=b"second")
    assert await stand.append(first, second) == [Answer("twin"), Answer("twin", "duplicate")]
    assert [claim.body for claim in await stand.claim()] == [b"first"]


async def test_a_duplicate_leaves_the_first_as_it_was(stand: Stand) -> None:
    id = await stand.add(body=b"first", priority=LOW)
    await stand.append(stand.message(id, body=b"second", priority=HIGH, delay=10))
    record = await stand.look(id)
    assert (record.status, record.body, record.priority) == (JobStatus.QUEUED, b"first", LOW)


async def test_the_same_id_in_another_stream_is_another_message(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    id = await stand.add(body=b"here")
    await stand.add(id, source=elsewhere, body=b"there")
    assert (await stand.look(id)).body == b"here"
    assert (await stand.look(id, source=elsewhere)).body == b"there"


@pytest.mark.whole("parts have no common order")
async def test_others_of_a_batch_are_taken_beside_a_duplicate(stand: Stand) -> None:
    known = await stand.add()
    before, after = stand.message(), stand.message()
    answers = await stand.append(before, stand.message(known), after)
    assert [answer.verdict for answer in answers] == ["accepted", "duplicate", "accepted"]
    assert await stand.claim_ids() == [known, before.id, after.id]


# --- when and how long ------------------------------------------------------------------------------------


async def test_a_delayed_message_is_scheduled(stand: Stand) -> None:
    id = await stand.add(delay=10)
    record = await stand.look(id)
    assert record.status is JobStatus.SCHEDULED
    assert abs(record.due_us - stand.now_us() - 10 * SECOND) < 5 * SECOND
    assert await stand.claim() == []


async def test_a_message_with_a_due_time_ahead_is_scheduled(stand: Stand) -> None:
    message = stand.message(due_us=stand.now_us() + 10 * SECOND)
    await stand.append(message)
    record = await stand.look(message.id)
    assert (record.status, record.due_us) == (JobStatus.SCHEDULED, message.due_us)


async def test_a_message_whose_due_time_has_passed_is_queued(stand: Stand) -> None:
    message = stand.message(due_us=stand.now_us() - SECOND)
    await stand.append(message)
    assert await stand.claim_ids() == [message.id]


async def test_of_a_delay_and_a_due_time_the_later_holds(stand: Stand) -> None:
    soon, late = stand.now_us() + 5 * SECOND, stand.now_us() + 50 * SECOND
    delay_wins, due_wins = stand.message(due_us=soon, delay=20), stand.message(due_us=late, delay=20)
    await stand.append(delay_wins, due_wins)
    assert abs((await stand.look(delay_wins.id)).due_us - stand.now_us() - 20 * SECOND) < 5 * SECOND
    assert (await stand.look(due_wins.id)).due_us == late


async def test_a_lifetime_counts_from_the_append(stand: Stand) -> None:
    await stand.add(lifetime=60)
    claim = await stand.claim_one()
    assert abs(claim.expires_us - stand.now_us() - 60 * SECOND) < 5 * SECOND


async def test_the_lifetime_of_a_delayed_message_counts_from_its_due_time(stand: Stand) -> None:
    await stand.add(lifetime=60, delay=10)
    due_us = stand.now_us() + 10 * SECOND
    await stand.advance(20)
    await stand.promote()
    claim = await stand.claim_one()
    assert abs(claim.expires_us - due_us - 60 * SECOND) < 5 * SECOND


async def test_a_message_without_a_lifetime_never_expires(stand: Stand) -> None:
    await stand.add()
    assert (await stand.claim_one()).expires_us == 0


async def test_a_message_that_has_expired_is_still_handed_out_for_its_worker_to_judge(stand: Stand) -> None:
    id = await stand.add(lifetime=5)
    await stand.advance(10)
    claim = await stand.claim_one(id)
    assert 0 < claim.expires_us < claim.claimed_us


@pytest.mark.parametrize("priority", [HIGH, NORMAL, LOW])
async def test_a_priority_is_kept(stand: Stand, priority: int) -> None:
    await stand.add(priority=priority)
    assert (await stand.claim_one()).priority == priority


# --- limits -----------------------------------------------------------------------------------------------


@pytest.mark.whole("a limit holds for each part")
async def test_what_goes_beyond_the_limit_is_refused(stand: Stand) -> None:
    messages = [stand.message() for _ in range(5)]
    answers = await stand.append(*messages, limit=3)
    assert [answer.verdict for answer in answers] == ["accepted"] * 3 + ["full"] * 2
    assert [answer.id for answer in answers] == [message.id for message in messages]
    assert await stand.claim_ids() == [message.id for message in messages[:3]]


@pytest.mark.whole("a limit holds for each part")
async def test_the_limit_counts_what_is_there_already(stand: Stand) -> None:
    await stand.append(stand.message(), stand.message())
    (answer,) = await stand.append(stand.message(), limit=2)
    assert answer.verdict == "full"


@pytest.mark.whole("a limit holds for each part")
async def test_the_limit_counts_scheduled_messages(stand: Stand) -> None:
    await stand.add(delay=10)
    (answer,) = await stand.append(stand.message(), limit=1)
    assert answer.verdict == "full"


async def test_the_limit_does_not_count_running_messages(stand: Stand) -> None:
    await stand.running()
    (answer,) = await stand.append(stand.message(), limit=1)
    assert answer.verdict == "accepted"


async def test_the_limit_counts_neither_retrying_nor_dead_messages(stand: Stand) -> None:
    await stand.retry(await stand.running())
    await stand.die(await stand.running())
    (answer,) = await stand.append(stand.message(), limit=1)
    assert answer.verdict == "accepted"


async def test_a_duplicate_is_told_so_even_when_it_is_full(stand: Stand) -> None:
    id = await stand.add()
    assert await stand.append(stand.message(id), limit=1) == [Answer(id, "duplicate")]


async def test_a_duplicate_takes_no_room(stand: Stand) -> None:
    id = await stand.add()
    answers = await stand.append(stand.message(id), stand.message(), limit=2)
    assert [answer.verdict for answer in answers] == ["duplicate", "accepted"]


@pytest.mark.whole("a limit holds for each part")
async def test_a_refused_message_leaves_nothing_behind(stand: Stand) -> None:
    await stand.add()
    refused = stand.message()
    await stand.append(refused, limit=1)
    assert await stand.status(refused.id) is JobStatus.UNKNOWN
    await stand.claim_one()
    assert await stand.append(refused, limit=1) == [Answer(refused.id, "accepted")]


@pytest.mark.whole("a limit holds for each part")
async def test_there_is_room_again_after_a_claim(stand: Stand) -> None:
    await stand.append(stand.message(), stand.message(), limit=2)
    await stand.claim(1)
    answers = await stand.append(stand.message(), stand.message(), limit=2)
    assert [answer.verdict for answer in answers] == ["accepted", "full"]


async def test_the_limit_belongs_to_its_stream(stand: Stand) -> None:
    await stand.add()
    elsewhere = await stand.queue("elsewhere")
    (answer,) = await stand.append(stand.message(new_id()), source=elsewhere, limit=1)
    assert answer.verdict == "accepted"
