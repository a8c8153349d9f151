"""Appending: together what comes together, again what was not answered, and never twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import pytest

from headrace import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.answers import Answer
from headrace.engine.producing import producer as producer_module
from headrace.engine.producing import producer_lane
from headrace.engine.producing.producer import Producer
from headrace.engine.producing.producer_lane import BATCH_BYTES, BATCH_MESSAGES
from headrace.engine.streams import StreamRouter
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until

MAILS = Stream("queue", "mails")
REPORTS = Stream("queue", "reports")

Append = Callable[[Batch], Awaitable[list[Answer]]]


class ProducerHarness:
    """A producer on a memory store whose appends can be watched, held up and made to fail."""

    def __init__(self) -> None:
        self.store = InterceptedStore()
        self.backend = StreamRouter(self.store)
        self.producer = Producer(self.backend)
        self.batches: list[Batch] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.errors: list[Exception] = []
        self.lose_answers = 0
        self.full_after: int | None = None  # so many batches; then the store has no room
        self._append = self.store.append
        self.store.intercept("append", self.watched)

    async def watched(self, batch: Batch) -> list[Answer]:
        self.batches.append(batch)
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        if self.full_after is not None and len(self.batches) > self.full_after:
            return [Answer(message.id, "full", "OOM") for message in batch.messages]
        answers = await self._append(batch)
        if self.lose_answers:
            self.lose_answers -= 1
            raise BackendUnavailable("the answer was lost", uncertain=True)
        return answers

    async def append(
        self, *messages: Message, stream: Stream = MAILS, limit: int | None = None
    ) -> list[Answer]:
        return await self.producer.append(stream, list(messages), limit)

    async def stored(self, stream: Stream = MAILS) -> int:
        return (await self.backend.counts(stream)).queued

    @property
    def sizes(self) -> list[int]:
        return [len(batch.messages) for batch in self.batches]


@pytest.fixture
async def harness() -> ProducerHarness:
    return ProducerHarness()


def shorten_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_lane, "RETRY_TIME", 0.05)
    monkeypatch.setattr(producer_module, "backoff", lambda failures: 0.002)


def message(size: int = 10) -> Message:
    return Message(new_id(), "send", b"x" * size)


def messages(count: int, size: int = 10) -> list[Message]:
    return [message(size) for _ in range(count)]


async def test_a_lone_message_is_sent_at_once(harness: ProducerHarness) -> None:
    sent = message()
    assert await harness.append(sent) == [Answer(sent.id)]
    assert harness.sizes == [1]


async def test_nothing_is_nothing(harness: ProducerHarness) -> None:
    assert await harness.append() == []
    assert harness.batches == []


async def test_what_comes_while_one_append_is_under_way_goes_together_in_the_next(
    harness: ProducerHarness,
) -> None:
    harness.gate.clear()
    sent = messages(21)
    tasks = [asyncio.create_task(harness.append(sent[0]))]
    await wait_until(lambda: harness.batches)
    tasks += [asyncio.create_task(harness.append(each)) for each in sent[1:]]
    await asyncio.sleep(0)
    harness.gate.set()
    answers = await asyncio.gather(*tasks)
    assert harness.sizes == [1, 20]
    assert answers == [[Answer(each.id)] for each in sent]


async def test_many_messages_are_sent_in_chunks_and_answered_in_order(harness: ProducerHarness) -> None:
    sent = messages(2 * BATCH_MESSAGES + 7)
    assert await harness.append(*sent) == [Answer(each.id) for each in sent]
    assert harness.sizes == [BATCH_MESSAGES, BATCH_MESSAGES, 7]


async def test_a_chunk_is_bounded_in_bytes(harness: ProducerHarness) -> None:
    await harness.append(*messages(10, size=BATCH_BYTES // 4))
    assert harness.sizes == [4, 4, 2]


async def test_a_single_message_may_be_larger_than_a_chunk(harness: ProducerHarness) -> None:
    await harness.append(message(), message(size=3 * BATCH_BYTES), message())
    assert harness.sizes == [1, 1, 1]


async def test_small_requests_share_a_chunk_with_the_end_of_a_large_one(harness: ProducerHarness) -> None:
    await asyncio.gather(harness.append(*messages(BATCH_MESSAGES + 1)), harness.append(*messages(3)))
    assert harness.sizes == [BATCH_MESSAGES, 4]


async def test_batches_of_a_stream_are_numbered_and_one_at_a_time(harness: ProducerHarness) -> None:
    harness.gate.clear()
    task = asyncio.create_task(harness.append(*messages(3 * BATCH_MESSAGES)))
    await wait_until(lambda: harness.batches)
    await asyncio.sleep(0)
    assert len(harness.batches) == 1
    harness.gate.set()
    await task
    assert [batch.number for batch in harness.batches] == [1, 2, 3]
    assert len({batch.producer for batch in harness.batches}) == 1


async def test_streams_do_not_wait_for_each_other(harness: ProducerHarness) -> None:
    harness.gate.clear()
    tasks = [asyncio.create_task(harness.append(message(), stream=stream)) for stream in (MAILS, REPORTS)]
    await wait_until(lambda: len(harness.batches) == 2)
    harness.gate.set()
    await asyncio.gather(*tasks)
    assert [batch.number for batch in harness.batches] == [1, 1]


async def test_batches_with_another_limit_have_numbers_of_their_own(harness: ProducerHarness) -> None:
    first, second = message(), message()
    await harness.append(first)
    assert await harness.append(second, limit=5) == [Answer(second.id)]
    assert harness.batches[0].producer != harness.batches[1].producer
    assert await harness.stored() == 2


async def test_what_is_full_is_said_of_each_message(harness: ProducerHarness) -> None:
    answers = await harness.append(*messages(3), limit=2)
    assert [answer.verdict for answer in answers] == ["accepted", "accepted", "full"]


async def test_a_lost_answer_is_asked_for_again_under_the_same_number(harness: ProducerHarness) -> None:
    harness.lose_answers = 2
    sent = messages(3)
    assert await harness.append(*sent) == [Answer(each.id) for each in sent]
    assert [batch.number for batch in harness.batches] == [1, 1, 1]
    assert await harness.stored() == 3


async def test_a_store_that_is_away_for_a_moment_is_tried_again(harness: ProducerHarness) -> None:
    harness.errors = [BackendUnavailable("restarting", transient=True)]
    await harness.append(message())
    assert harness.sizes == [1, 1]
    assert await harness.stored() == 1


async def test_what_will_not_pass_is_told_at_once(harness: ProducerHarness) -> None:
    harness.errors = [BackendUnavailable("the disk is full")]
    with pytest.raises(BackendUnavailable, match="the disk is full") as raised:
        await harness.append(message())
    assert not raised.value.uncertain
    assert harness.sizes == [1]


async def test_a_store_without_room_does_not_say_that_a_repeat_was_not_stored(
    harness: ProducerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was stored, its answer was lost, and the repeat is refused for lack of memory."""
    shorten_retries(monkeypatch)
    harness.lose_answers = 1
    harness.full_after = 1
    with pytest.raises(BackendUnavailable) as raised:
        await harness.append(message())
    assert raised.value.uncertain
    assert await harness.stored() == 1
    [answer] = await harness.append(message())
    assert (answer.verdict, answer.why) == ("full", "OOM")


async def test_after_a_lost_answer_every_later_trouble_is_uncertain(
    harness: ProducerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.lose_answers = 1

    async def lost_then_away(batch: Batch) -> list[Answer]:
        if harness.batches:
            monkeypatch.setattr(producer_lane, "RETRY_TIME", 0)  # there is no time for another try
            raise BackendUnavailable("cannot connect", transient=True)
        return await harness.watched(batch)

    harness.store.intercept("append", lost_then_away)
    with pytest.raises(BackendUnavailable, match="cannot connect") as raised:
        await harness.append(message())
    assert raised.value.uncertain


async def test_patience_ends_and_the_caller_is_told(
    harness: ProducerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_retries(monkeypatch)
    harness.lose_answers = 1000
    with pytest.raises(BackendUnavailable) as raised:
        await harness.append(message())
    assert raised.value.uncertain


@pytest.mark.parametrize("count", [1, 3])
async def test_a_store_that_hangs_is_given_up_in_time(
    harness: ProducerHarness, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    shorten_retries(monkeypatch)
    harness.gate.clear()
    sending = [asyncio.create_task(harness.append(message())) for _ in range(count)]
    for each in sending:
        with pytest.raises(BackendUnavailable, match="has not answered") as raised:
            await each
        assert raised.value.uncertain
        assert not each.cancelling()
    harness.gate.set()
    await harness.append(message())


async def test_a_caller_that_is_cancelled_when_its_time_is_up_is_cancelled(
    harness: ProducerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_retries(monkeypatch)

    async def cancelled_meanwhile(batch: Batch) -> list[Answer]:
        never: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        try:
            return await never
        except asyncio.CancelledError:
            sending.cancel()
            raise

    harness.store.intercept("append", cancelled_meanwhile)
    sending = asyncio.create_task(harness.append(message()))
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_whoever_waits_in_a_line_that_moves_is_not_out_of_time(
    harness: ProducerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_lane, "RETRY_TIME", 1.0)
    append, loop = harness.store.append, asyncio.get_running_loop()

    async def slow(batch: Batch) -> list[Answer]:
        until = loop.time() + 0.15
        await wait_until(lambda: loop.time() > until)
        return await append(batch)

    harness.store.intercept("append", slow)
    monkeypatch.setattr(producer_lane, "BATCH_MESSAGES", 1)
    await asyncio.gather(*(harness.append(message()) for _ in range(8)))
    assert await harness.stored() == 8


async def test_each_in_a_line_that_stands_still_has_its_own_time(
    harness: ProducerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_retries(monkeypatch)
    harness.gate.clear()
    first = asyncio.create_task(harness.append(message()))
    await wait_until(lambda: harness.batches)
    second = asyncio.create_task(harness.append(message()))
    assert [type(each) for each in await asyncio.gather(first, second, return_exceptions=True)] == [
        BackendUnavailable
    ] * 2
    harness.gate.set()


async def test_a_request_that_failed_does_not_hold_up_the_next(harness: ProducerHarness) -> None:
    harness.errors = [BackendUnavailable("the disk is full")]
    with pytest.raises(BackendUnavailable):
        await harness.append(message())
    await harness.append(message())
    assert [batch.number for batch in harness.batches] == [1, 2]


async def test_when_a_chunk_fails_the_rest_of_its_request_is_not_sent(harness: ProducerHarness) -> None:
    harness.errors = [BackendUnavailable("the disk is full")]
    failing = asyncio.create_task(harness.append(*messages(3 * BATCH_MESSAGES)))
    other = asyncio.create_task(harness.append(message()))
    with pytest.raises(BackendUnavailable):
        await failing
    await other
    assert harness.sizes == [BATCH_MESSAGES, 1]
    assert await harness.stored() == 1


async def test_the_error_of_a_request_of_which_a_part_is_stored_is_uncertain(
    harness: ProducerHarness,
) -> None:
    async def full_after_one(batch: Batch) -> list[Answer]:
        if harness.batches:
            raise BackendUnavailable("the disk is full")
        return await harness.watched(batch)

    harness.store.intercept("append", full_after_one)
    sent = messages(BATCH_MESSAGES + 1), messages(2)
    errors = await asyncio.gather(*(harness.append(*each) for each in sent), return_exceptions=True)
    assert [isinstance(each, BackendUnavailable) and each.uncertain for each in errors] == [True, False]
    assert await harness.stored() == BATCH_MESSAGES


async def test_an_error_that_nobody_expected_reaches_the_caller_too(harness: ProducerHarness) -> None:
    harness.errors = [ZeroDivisionError("a bug")]
    with pytest.raises(ZeroDivisionError):
        await harness.append(message())
    await harness.append(message())


async def test_a_caller_that_goes_away_does_not_tear_a_batch(harness: ProducerHarness) -> None:
    harness.gate.clear()
    leaving, staying = messages(3), messages(2)
    first = asyncio.create_task(harness.append(message()))
    await wait_until(lambda: harness.batches)
    left = asyncio.create_task(harness.append(*leaving))
    stayed = asyncio.create_task(harness.append(*staying))
    await asyncio.sleep(0)
    left.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await left
    harness.gate.set()
    await first
    assert await stayed == [Answer(each.id) for each in staying]
    assert harness.sizes == [1, 5]
    assert await harness.stored() == 6


async def test_a_caller_cancelled_in_flight_leaves_a_whole_batch(harness: ProducerHarness) -> None:
    harness.gate.clear()
    task = asyncio.create_task(harness.append(*messages(3)))
    await wait_until(lambda: harness.batches)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    harness.gate.set()
    await harness.producer.close()
    assert await harness.stored() == 3


@pytest.mark.parametrize("begun", [False, True])
async def test_a_sender_that_is_cancelled_with_its_loop_does_not_forget_its_callers(
    harness: ProducerHarness, begun: bool
) -> None:
    """As when a program cancels every task, and some of them go on."""
    harness.gate.clear()
    callers = [asyncio.create_task(harness.append(message(), message())) for _ in range(2)]
    if begun:
        await wait_until(lambda: harness.batches)
    else:
        await asyncio.sleep(0)
    [sender] = [task for task in asyncio.all_tasks() if task.get_name() == "headrace producer"]
    sender.cancel()
    harness.gate.set()
    answers = await asyncio.wait_for(asyncio.gather(*callers), 10)
    assert [len(each) for each in answers] == [2, 2]
    assert await harness.stored() == 4
    await asyncio.wait_for(harness.append(message()), 10)
    assert await harness.stored() == 5


async def test_closing_waits_for_what_is_under_way(harness: ProducerHarness) -> None:
    harness.gate.clear()
    task = asyncio.create_task(harness.append(message()))
    await wait_until(lambda: harness.batches)
    closing = asyncio.create_task(harness.producer.close())
    await asyncio.sleep(0)
    assert not closing.done()
    harness.gate.set()
    await closing
    assert len(await task) == 1


async def test_a_lone_caller_that_goes_away_leaves_his_batch_to_be_sent_again(
    harness: ProducerHarness,
) -> None:
    harness.gate.clear()
    gone = asyncio.create_task(harness.append(message()))
    await wait_until(lambda: harness.batches)
    gone.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await gone
    harness.gate.set()
    await harness.producer.close()
    assert [batch.number for batch in harness.batches] == [1, 1]
    assert await harness.stored() == 1


async def test_what_gathered_behind_a_lone_caller_is_sent_when_he_goes_away(harness: ProducerHarness) -> None:
    harness.gate.clear()
    gone = asyncio.create_task(harness.append(message()))
    await wait_until(lambda: harness.batches)
    others = [asyncio.create_task(harness.append(message())) for _ in range(3)]
    await asyncio.sleep(0)
    gone.cancel()
    harness.gate.set()
    await asyncio.gather(*others)
    assert [(batch.number, len(batch.messages)) for batch in harness.batches] == [(1, 1), (1, 1), (2, 3)]
    assert await harness.stored() == 4


async def test_closing_waits_for_a_lone_message(harness: ProducerHarness) -> None:
    harness.gate.clear()
    sending = asyncio.create_task(harness.append(message()))
    await wait_until(lambda: harness.batches)
    closing = [asyncio.create_task(harness.producer.close()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in closing)
    harness.gate.set()
    await asyncio.gather(*closing)
    assert await harness.stored() == 1
    await sending


async def test_the_store_is_at_work_while_the_next_pages_are_written(harness: ProducerHarness) -> None:
    harness.gate.clear()
    sent = messages(2 * BATCH_MESSAGES + 30)

    def pages() -> Iterator[list[Message]]:
        yield sent[: BATCH_MESSAGES - 10]
        yield sent[BATCH_MESSAGES - 10 : BATCH_MESSAGES + 10]
        yield sent[BATCH_MESSAGES + 10 : BATCH_MESSAGES + 20]
        assert harness.sizes == [BATCH_MESSAGES]  # the first is under way
        harness.gate.set()
        yield sent[BATCH_MESSAGES + 20 :]

    answers = await harness.producer.append_pages(MAILS, pages(), len(sent), None)
    assert answers == [Answer(each.id) for each in sent]
    assert harness.sizes == [BATCH_MESSAGES, BATCH_MESSAGES, 30]
    assert await harness.stored() == len(sent)


async def test_no_page_is_written_after_one_has_failed(harness: ProducerHarness) -> None:
    harness.errors = [BackendUnavailable("the disk is full")]
    written = 0

    def pages() -> Iterator[list[Message]]:
        nonlocal written
        for _ in range(1000):
            written += 1
            yield messages(BATCH_MESSAGES // 2)

    with pytest.raises(BackendUnavailable, match="the disk is full"):
        await harness.producer.append_pages(MAILS, pages(), 500 * BATCH_MESSAGES, None)
    assert written < 10
    assert await harness.stored() == 0
    await harness.append(message())


async def test_closing_waits_for_the_pages_that_are_not_written_yet(harness: ProducerHarness) -> None:
    sent = messages(3 * BATCH_MESSAGES)
    pages = (sent[start : start + 100] for start in range(0, len(sent), 100))
    appending = asyncio.create_task(harness.producer.append_pages(MAILS, pages, len(sent), None))
    await wait_until(lambda: harness.batches)
    await harness.producer.close()
    assert await harness.stored() == len(sent)
    await appending


async def test_closing_does_not_wait_for_pages_of_a_caller_that_is_cancelled(
    harness: ProducerHarness,
) -> None:
    harness.gate.clear()
    pages = (messages(BATCH_MESSAGES) for _ in range(1000))
    appending = asyncio.create_task(harness.producer.append_pages(MAILS, pages, 1000 * BATCH_MESSAGES, None))
    await wait_until(lambda: harness.batches)
    closing = asyncio.create_task(harness.producer.close())
    appending.cancel()
    harness.gate.set()
    async with asyncio.timeout(10):
        await closing
    assert await harness.stored() < 1000 * BATCH_MESSAGES


async def test_no_pages_have_no_answers(harness: ProducerHarness) -> None:
    assert await harness.producer.append_pages(MAILS, [], 0, None) == []
    assert harness.batches == []
