"""Looking: streams, counts and records. Some verbs here change a single message."""

from __future__ import annotations

import pytest

from headrace.core.errors import ConfigurationError
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import (
    ENVELOPE_VERSION,
    FRESH,
    HIGH,
    LOW,
    NORMAL,
    Envelope,
    Stream,
    TrailEntry,
    encode_envelope,
)
from headrace.core.messages.outcome import Cancelled, Expired, Released, Retry, Snoozed
from headrace.core.records.job_info import job_info
from headrace.core.records.record import Counts, JobStatus, Record
from headrace.core.runtime.clock import SECOND, datetime_of, microseconds
from headrace.testing.contract.kit.stand import HOUR_US, Stand, kept


async def test_declared_streams_are_listed(stand: Stand) -> None:
    await stand.queue("elsewhere")
    assert set(await stand.backend.streams()) == {stand.stream, Stream("queue", "elsewhere")}


async def test_streams_that_were_only_appended_to_are_listed(stand: Stand) -> None:
    elsewhere = Stream("queue", "elsewhere")
    await stand.add(source=elsewhere)
    assert elsewhere in await stand.backend.streams()


async def test_other_processes_list_the_same_streams(stand: Stand) -> None:
    assert await (await stand.other()).streams() == [stand.stream]


async def test_looking_at_a_stream_does_not_make_it(stand: Stand) -> None:
    nowhere = Stream("queue", "nowhere")
    assert await stand.backend.counts(nowhere) == Counts()
    assert not await stand.backend.messages(nowhere)
    assert await stand.backend.streams() == [stand.stream]


async def test_a_stream_stays_listed_when_it_is_empty(stand: Stand) -> None:
    await stand.settle_done(await stand.running())
    assert await stand.backend.streams() == [stand.stream]


# --- counts -----------------------------------------------------------------------------------------------


async def test_an_empty_stream_counts_nothing(stand: Stand) -> None:
    assert await stand.counts() == Counts()


async def test_each_state_is_counted(stand: Stand) -> None:
    claims = [await stand.running() for _ in range(5)]
    await stand.retry(claims[0])
    await stand.die(claims[1])
    await stand.settle_done(claims[2], value=b"42")
    await stand.add()
    await stand.add()
    await stand.add(delay=10)
    counts = await stand.counts()
    assert (counts.queued, counts.running, counts.scheduled, counts.retrying, counts.dead) == (2, 2, 1, 1, 1)


async def test_snoozed_and_handed_back_messages_count_as_scheduled(stand: Stand) -> None:
    snoozed, released = await stand.running(), await stand.running()
    await stand.settle(snoozed, Snoozed(FRESH, microseconds(10)))
    await stand.settle(released, Released(FRESH, microseconds(10)))
    counts = await stand.counts()
    assert (counts.scheduled, counts.retrying) == (2, 0)


async def test_suspect_and_returned_messages_count_as_queued(stand: Stand) -> None:
    suspect, returned = await stand.running(), await stand.running()
    await stand.settle(returned, Released())
    await stand.lose(suspect)
    counts = await stand.counts()
    assert (counts.queued, counts.running) == (2, 0)


async def test_a_queued_message_that_ended_is_no_longer_counted(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    await stand.settle_done(claim)
    cancelled = await stand.add()
    await stand.backend.cancel(stand.stream, cancelled, ttl_us=0)
    assert await stand.counts() == Counts()


async def test_what_should_run_already_is_counted_as_due(stand: Stand) -> None:
    await stand.add(delay=10)
    await stand.retry(await stand.running(), delay=20)
    await stand.add(delay=100)
    assert (await stand.counts()).due == 0
    await stand.advance(30)
    assert (await stand.counts()).due == 2
    await stand.promote()
    assert (await stand.counts()).due == 0


@pytest.mark.whole("parts have no common order")
async def test_the_longest_waiting_message_is_told(stand: Stand) -> None:
    first_us = stand.now_us()
    await stand.add()
    await stand.advance(10)
    await stand.add()
    assert abs((await stand.counts()).oldest_us - first_us) < 5 * SECOND
    await stand.claim(1)
    assert abs((await stand.counts()).oldest_us - stand.now_us()) < 5 * SECOND
    await stand.claim(1)
    assert (await stand.counts()).oldest_us == 0


async def test_a_delayed_message_waits_from_the_moment_it_is_ready(stand: Stand) -> None:
    await stand.add(delay=10)
    assert (await stand.counts()).oldest_us == 0
    await stand.advance(100)
    await stand.promote()
    # Some stores say when it was due, others when it was promoted: between the two it waited for its queue.
    waited_us = stand.now_us() - (await stand.counts()).oldest_us
    assert 0 <= waited_us < 91 * SECOND


async def test_counts_stay_right_when_many_are_cancelled(stand: Stand) -> None:
    messages = [stand.message(delay=10 * (index % 2)) for index in range(300)]
    await stand.append(*messages)
    for message in messages[:280]:
        await stand.backend.cancel(stand.stream, message.id, ttl_us=0)
    counts = await stand.counts()
    assert (counts.queued, counts.scheduled) == (10, 10)
    await stand.advance(11)
    await stand.promote()
    assert set(await stand.claim_ids()) == {message.id for message in messages[280:]}


# --- records ----------------------------------------------------------------------------------------------


async def test_every_message_and_every_end_record_has_a_record(stand: Stand) -> None:
    expected = await _one_of_each(stand)
    assert {record.id: record.status for record in await _all_records(stand)} == expected


async def test_records_are_those_that_look_answers(stand: Stand) -> None:
    await _one_of_each(stand)
    for record in await _all_records(stand):
        assert await stand.backend.get(stand.stream, record.id) == record


@pytest.mark.parametrize("ahead", [0, 5], ids=["", "by a clock that is ahead"])
async def test_a_message_is_enqueued_before_all_that_happens_to_it(stand: Stand, ahead: float) -> None:
    for _ in range(20):  # a store may tell a start by the millisecond alone
        id, written_us = new_id(), stand.now_us() + microseconds(ahead)
        body = encode_envelope(Envelope(ENVELOPE_VERSION, id, "greet", written_us, None, None, b""))
        claim = await stand.claim_one(await stand.add(id, body=body))
        info = job_info(await stand.look(id))
        assert info.enqueued_at is not None
        assert info.started_at is not None
        assert info.enqueued_at <= info.started_at
        failed = FRESH.failed(TrailEntry(stand.now_us(), "failed", "worker-1"))
        await stand.settle(claim, Retry(failed, 0))
        await stand.claim_one(id)
        again = job_info(await stand.look(id))
        assert again.started_at is not None
        assert again.enqueued_at is not None
        assert again.enqueued_at <= datetime_of(again.trail[0].at_us) <= again.started_at


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.UNKNOWN])
async def test_records_are_found_by_status(stand: Stand, status: JobStatus) -> None:
    expected = await _one_of_each(stand)
    records = await _all_records(stand, status=status)
    assert [record.id for record in records] == [id for id, each in expected.items() if each is status]


async def test_records_are_found_by_task(stand: Stand) -> None:
    for task in ("mail.send", "mail.sort", "mail.send"):
        await stand.add(task=task)
    assert len(await _all_records(stand, task="mail.send")) == 2
    assert await _all_records(stand, task="mail") == []


async def test_records_are_found_by_status_and_task(stand: Stand) -> None:
    for task in ("mail.send", "mail.sort"):
        await stand.add(task=task)
        await stand.add(task=task, delay=10)
    (record,) = await _all_records(stand, status=JobStatus.SCHEDULED, task="mail.sort")
    assert (record.task, record.status) == ("mail.sort", JobStatus.SCHEDULED)


async def test_records_are_listed_page_by_page_without_gap_or_repeat(stand: Stand) -> None:
    expected = set()
    for number in range(25):
        expected.add(await stand.add(delay=10 * (number % 2)))
    records = await _all_records(stand, limit=4)
    assert len(records) == 25
    assert {record.id for record in records} == expected


async def test_running_messages_come_first_and_then_the_newest(stand: Stand) -> None:
    scheduled = [await stand.add(delay=seconds) for seconds in (10, 20)]
    failed = await stand.running()
    await stand.retry(failed)
    started = (await stand.running()).id
    queued = []
    for priority in (NORMAL, HIGH, LOW, NORMAL):
        queued.append(await stand.add(priority=priority))
        await stand.pass_a_millisecond()
    for limit in (2, 100):
        listed = [record.id for record in await _all_records(stand, limit=limit)]
        assert listed == [started, *reversed(queued), failed.id, *reversed(scheduled)]


@pytest.mark.parametrize("move", ["start", "promote"])
async def test_what_moves_on_between_two_pages_is_not_missed(stand: Stand, move: str) -> None:
    running = await stand.running()
    ids = {running.id} | {await stand.add(delay=10 * (number % 2)) for number in range(8)}
    listed: set[str] = set()
    cursor = None
    for number in range(100):
        page = await stand.backend.messages(stand.stream, cursor=cursor, limit=2)
        listed |= {record.id for record in page}
        cursor = page.cursor
        if number == 0:
            await stand.pass_a_millisecond()
            await stand.advance(11)
            await stand.promote()
            if move == "start":
                await stand.claim(8)
        if cursor is None:
            break
    assert listed == ids


@pytest.mark.parametrize("cursor", ["x", "1:?:", "x:Q:1:1", "1:X:x", "1:Q:x", "1:S:x", "1:M:x"])
async def test_a_cursor_that_no_page_gave_is_refused(stand: Stand, cursor: str) -> None:
    with pytest.raises(ConfigurationError, match="a page gave"):
        await stand.backend.messages(stand.stream, cursor=cursor)


async def test_a_page_holds_no_more_than_was_asked_for(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(10)])
    assert len(await stand.backend.messages(stand.stream, limit=3)) <= 3


async def test_the_last_page_has_no_cursor(stand: Stand) -> None:
    await stand.add()
    records = await _all_records(stand, limit=1)
    assert len(records) == 1


async def test_an_end_record_that_has_passed_has_no_record(stand: Stand) -> None:
    await stand.settle_done(await stand.running(), value=b"42", ttl=60)
    await stand.advance(61)
    assert await _all_records(stand) == []


async def test_records_of_other_streams_are_not_listed(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.add(source=elsewhere)
    assert await _all_records(stand) == []


# --- run_now ----------------------------------------------------------------------------------------------


async def test_a_scheduled_message_can_be_run_now(stand: Stand) -> None:
    id = await stand.add(delay=1000)
    assert await stand.backend.run_now(stand.stream, id)
    assert await stand.status(id) is JobStatus.QUEUED
    assert await stand.claim_ids() == [id]
    assert (await stand.counts()).scheduled == 0


async def test_a_retry_that_is_run_now_keeps_its_counts(stand: Stand) -> None:
    claim = await stand.running()
    await stand.retry(claim, delay=1000)
    assert await stand.backend.run_now(stand.stream, claim.id)
    assert (await stand.claim_one(claim.id)).state.failures == 1


async def test_a_message_that_is_run_now_runs_once(stand: Stand) -> None:
    id = await stand.add(delay=10)
    await stand.backend.run_now(stand.stream, id)
    assert not await stand.backend.run_now(stand.stream, id)
    await stand.advance(11)
    assert (await stand.promote()).count == 0
    assert await stand.claim_ids() == [id]


async def test_a_message_that_is_run_now_may_be_scheduled_again(stand: Stand) -> None:
    id = await stand.add(delay=10)
    await stand.backend.run_now(stand.stream, id)
    await stand.retry(await stand.claim_one(id), delay=100)
    await stand.advance(50)
    assert (await stand.promote()).count == 0
    await stand.advance(51)
    assert (await stand.promote()).count == 1
    assert await stand.claim_ids() == [id]


async def test_only_what_waits_for_its_time_can_be_run_now(stand: Stand) -> None:
    dead, running = await stand.running(), await stand.running()
    await stand.die(dead)
    queued = await stand.add()
    for id in (dead.id, running.id, queued, "nobody"):
        assert not await stand.backend.run_now(stand.stream, id)
    assert await stand.claim_ids() == [queued]


# --- help -------------------------------------------------------------------------------------------------


async def _one_of_each(stand: Stand) -> dict[str, JobStatus]:
    """A message in every state, as id → status."""
    claims = [await stand.running() for _ in range(6)]
    await stand.retry(claims[0])
    await stand.die(claims[1])
    await stand.settle(claims[2], kept(b"42"))
    await stand.settle(claims[3], Cancelled(HOUR_US))
    await stand.settle(claims[4], Expired(HOUR_US))
    return {
        claims[0].id: JobStatus.RETRYING,
        claims[1].id: JobStatus.DEAD,
        claims[2].id: JobStatus.SUCCEEDED,
        claims[3].id: JobStatus.CANCELLED,
        claims[4].id: JobStatus.EXPIRED,
        claims[5].id: JobStatus.RUNNING,
        await stand.add(): JobStatus.QUEUED,
        await stand.add(delay=10): JobStatus.SCHEDULED,
    }


async def _all_records(
    stand: Stand, *, status: JobStatus | None = None, task: str | None = None, limit: int = 100
) -> list[Record]:
    records: list[Record] = []
    cursor = None
    for _ in range(100):
        page = await stand.backend.messages(
            stand.stream, status=status, task=task, cursor=cursor, limit=limit
        )
        assert len(page) <= limit
        records += page
        cursor = page.cursor
        if cursor is None:
            return records
    raise AssertionError("the listing has no end")


@pytest.mark.parametrize("due_us", [1 << 53, 253_402_300_800_000_000, 1 << 62])
async def test_whatever_time_is_stored_is_listed(stand: Stand, due_us: int) -> None:
    message = stand.message(due_us=due_us)
    await stand.append(message)
    [listed] = await stand.backend.messages(stand.stream, status=JobStatus.SCHEDULED)
    assert listed == await stand.look(message.id)
    assert listed.due_us == pytest.approx(due_us)
    assert (await stand.promote()).count == 0
