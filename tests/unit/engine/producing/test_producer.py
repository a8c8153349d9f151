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


class Desk:
    """A producer on a memory store whose appends can be watched, held up and made to fail."""

    def __init__(self) -> None:
        self.store = InterceptedStore()
        self.backend = StreamRouter(self.store)
        self.producer = Producer(self.backend)
        self.batches: list[Batch] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.troubles: list[Exception] = []
        self.lose_answers = 0
        self.full_after: int | None = None  # so many batches; then the store has no room
        self._append = self.store.append
        self.store.intercept("append", self.watched)

    async def watched(self, batch: Batch) -> list[Answer]:
        self.batches.append(batch)
        await self.gate.wait()
        if self.troubles:
            raise self.troubles.pop(0)
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
async def desk() -> Desk:
    return Desk()


def shorten_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_lane, "RETRY_TIME", 0.05)
    monkeypatch.setattr(producer_module, "backoff", lambda failures: 0.002)


def message(size: int = 10) -> Message:
    return Message(new_id(), "send", b"x" * size)


def messages(count: int, size: int = 10) -> list[Message]:
    return [message(size) for _ in range(count)]


async def test_a_lone_message_is_sent_at_once(desk: Desk) -> None:
    sent = message()
    assert await desk.append(sent) == [Answer(sent.id)]
    assert desk.sizes == [1]


async def test_nothing_is_nothing(desk: Desk) -> None:
    assert await desk.append() == []
    assert desk.batches == []


async def test_what_comes_while_one_append_is_under_way_goes_together_in_the_next(desk: Desk) -> None:
    desk.gate.clear()
    sent = messages(21)
    tasks = [asyncio.create_task(desk.append(sent[0]))]
    await wait_until(lambda: desk.batches)
    tasks += [asyncio.create_task(desk.append(each)) for each in sent[1:]]
    await asyncio.sleep(0)
    desk.gate.set()
    answers = await asyncio.gather(*tasks)
    assert desk.sizes == [1, 20]
    assert answers == [[Answer(each.id)] for each in sent]


async def test_many_messages_are_sent_in_chunks_and_answered_in_order(desk: Desk) -> None:
    sent = messages(2 * BATCH_MESSAGES + 7)
    assert await desk.append(*sent) == [Answer(each.id) for each in sent]
    assert desk.sizes == [BATCH_MESSAGES, BATCH_MESSAGES, 7]


async def test_a_chunk_is_bounded_in_bytes(desk: Desk) -> None:
    await desk.append(*messages(10, size=BATCH_BYTES // 4))
    assert desk.sizes == [4, 4, 2]


async def test_a_single_message_may_be_larger_than_a_chunk(desk: Desk) -> None:
    await desk.append(message(), message(size=3 * BATCH_BYTES), message())
    assert desk.sizes == [1, 1, 1]


async def test_small_requests_share_a_chunk_with_the_end_of_a_large_one(desk: Desk) -> None:
    await asyncio.gather(desk.append(*messages(BATCH_MESSAGES + 1)), desk.append(*messages(3)))
    assert desk.sizes == [BATCH_MESSAGES, 4]


async def test_batches_of_a_stream_are_numbered_and_one_at_a_time(desk: Desk) -> None:
    desk.gate.clear()
    task = asyncio.create_task(desk.append(*messages(3 * BATCH_MESSAGES)))
    await wait_until(lambda: desk.batches)
    await asyncio.sleep(0)
    assert len(desk.batches) == 1
    desk.gate.set()
    await task
    assert [batch.number for batch in desk.batches] == [1, 2, 3]
    assert len({batch.producer for batch in desk.batches}) == 1


async def test_streams_do_not_wait_for_each_other(desk: Desk) -> None:
    desk.gate.clear()
    tasks = [asyncio.create_task(desk.append(message(), stream=stream)) for stream in (MAILS, REPORTS)]
    await wait_until(lambda: len(desk.batches) == 2)
    desk.gate.set()
    await asyncio.gather(*tasks)
    assert [batch.number for batch in desk.batches] == [1, 1]


async def test_batches_with_another_limit_have_numbers_of_their_own(desk: Desk) -> None:
    first, second = message(), message()
    await desk.append(first)
    assert await desk.append(second, limit=5) == [Answer(second.id)]
    assert desk.batches[0].producer != desk.batches[1].producer
    assert await desk.stored() == 2


async def test_what_is_full_is_said_of_each_message(desk: Desk) -> None:
    answers = await desk.append(*messages(3), limit=2)
    assert [answer.verdict for answer in answers] == ["accepted", "accepted", "full"]


async def test_a_lost_answer_is_asked_for_again_under_the_same_number(desk: Desk) -> None:
    desk.lose_answers = 2
    sent = messages(3)
    assert await desk.append(*sent) == [Answer(each.id) for each in sent]
    assert [batch.number for batch in desk.batches] == [1, 1, 1]
    assert await desk.stored() == 3


async def test_a_store_that_is_away_for_a_moment_is_tried_again(desk: Desk) -> None:
    desk.troubles = [BackendUnavailable("restarting", transient=True)]
    await desk.append(message())
    assert desk.sizes == [1, 1]
    assert await desk.stored() == 1


async def test_what_will_not_pass_is_told_at_once(desk: Desk) -> None:
    desk.troubles = [BackendUnavailable("the disk is full")]
    with pytest.raises(BackendUnavailable, match="the disk is full") as raised:
        await desk.append(message())
    assert not raised.value.uncertain
    assert desk.sizes == [1]


async def test_a_store_without_room_does_not_say_that_a_repeat_was_not_stored(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was stored, its answer was lost, and the repeat is refused for lack of memory."""
    shorten_retries(monkeypatch)
    desk.lose_answers = 1
    desk.full_after = 1
    with pytest.raises(BackendUnavailable) as raised:
        await desk.append(message())
    assert raised.value.uncertain
    assert await desk.stored() == 1
    [answer] = await desk.append(message())
    assert (answer.verdict, answer.why) == ("full", "OOM")


async def test_after_a_lost_answer_every_later_trouble_is_uncertain(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.lose_answers = 1

    async def lost_then_away(batch: Batch) -> list[Answer]:
        if desk.batches:
            monkeypatch.setattr(producer_lane, "RETRY_TIME", 0)  # there is no time for another try
            raise BackendUnavailable("cannot connect", transient=True)
        return await desk.watched(batch)

    desk.store.intercept("append", lost_then_away)
    with pytest.raises(BackendUnavailable, match="cannot connect") as raised:
        await desk.append(message())
    assert raised.value.uncertain


async def test_patience_ends_and_the_caller_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_retries(monkeypatch)
    desk.lose_answers = 1000
    with pytest.raises(BackendUnavailable) as raised:
        await desk.append(message())
    assert raised.value.uncertain


@pytest.mark.parametrize("count", [1, 3])
async def test_a_store_that_hangs_is_given_up_in_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    shorten_retries(monkeypatch)
    desk.gate.clear()
    sending = [asyncio.create_task(desk.append(message())) for _ in range(count)]
    for each in sending:
        with pytest.raises(BackendUnavailable, match="has not answered") as raised:
            await each
        assert raised.value.uncertain
        assert not each.cancelling()
    desk.gate.set()
    await desk.append(message())


async def test_a_caller_that_is_cancelled_when_its_time_is_up_is_cancelled(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_retries(monkeypatch)

    async def cancelled_meanwhile(batch: Batch) -> list[Answer]:
        never: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        try:
            return await never
        except asyncio.CancelledError:
            sending.cancel()
            raise

    desk.store.intercept("append", cancelled_meanwhile)
    sending = asyncio.create_task(desk.append(message()))
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_whoever_waits_in_a_line_that_moves_is_not_out_of_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_lane, "RETRY_TIME", 1.0)
    append, loop = desk.store.append, asyncio.get_running_loop()

    async def slow(batch: Batch) -> list[Answer]:
        until = loop.time() + 0.15
        await wait_until(lambda: loop.time() > until)
        return await append(batch)

    desk.store.intercept("append", slow)
    monkeypatch.setattr(producer_lane, "BATCH_MESSAGES", 1)
    await asyncio.gather(*(desk.append(message()) for _ in range(8)))
    assert await desk.stored() == 8


async def test_each_in_a_line_that_stands_still_has_its_own_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_retries(monkeypatch)
    desk.gate.clear()
    first = asyncio.create_task(desk.append(message()))
    await wait_until(lambda: desk.batches)
    second = asyncio.create_task(desk.append(message()))
    assert [type(each) for each in await asyncio.gather(first, second, return_exceptions=True)] == [
        BackendUnavailable
    ] * 2
    desk.gate.set()


async def test_a_request_that_failed_does_not_hold_up_the_next(desk: Desk) -> None:
    desk.troubles = [BackendUnavailable("the disk is full")]
    with pytest.raises(BackendUnavailable):
        await desk.append(message())
    await desk.append(message())
    assert [batch.number for batch in desk.batches] == [1, 2]


async def test_when_a_chunk_fails_the_rest_of_its_request_is_not_sent(desk: Desk) -> None:
    desk.troubles = [BackendUnavailable("the disk is full")]
    failing = asyncio.create_task(desk.append(*messages(3 * BATCH_MESSAGES)))
    other = asyncio.create_task(desk.append(message()))
    with pytest.raises(BackendUnavailable):
        await failing
    await other
    assert desk.sizes == [BATCH_MESSAGES, 1]
    assert await desk.stored() == 1


async def test_an_error_that_nobody_expected_reaches_the_caller_too(desk: Desk) -> None:
    desk.troubles = [ZeroDivisionError("a bug")]
    with pytest.raises(ZeroDivisionError):
        await desk.append(message())
    await desk.append(message())


async def test_a_caller_that_goes_away_does_not_tear_a_batch(desk: Desk) -> None:
    desk.gate.clear()
    leaving, staying = messages(3), messages(2)
    first = asyncio.create_task(desk.append(message()))
    await wait_until(lambda: desk.batches)
    left = asyncio.create_task(desk.append(*leaving))
    stayed = asyncio.create_task(desk.append(*staying))
    await asyncio.sleep(0)
    left.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await left
    desk.gate.set()
    await first
    assert await stayed == [Answer(each.id) for each in staying]
    assert desk.sizes == [1, 5]
    assert await desk.stored() == 6


async def test_a_caller_cancelled_in_flight_leaves_a_whole_batch(desk: Desk) -> None:
    desk.gate.clear()
    task = asyncio.create_task(desk.append(*messages(3)))
    await wait_until(lambda: desk.batches)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    desk.gate.set()
    await desk.producer.close()
    assert await desk.stored() == 3


@pytest.mark.parametrize("begun", [False, True])
async def test_a_sender_that_is_cancelled_with_its_loop_does_not_forget_its_callers(
    desk: Desk, begun: bool
) -> None:
    """As when a program cancels every task, and some of them go on."""
    desk.gate.clear()
    callers = [asyncio.create_task(desk.append(message(), message())) for _ in range(2)]
    if begun:
        await wait_until(lambda: desk.batches)
    else:
        await asyncio.sleep(0)
    [sender] = [task for task in asyncio.all_tasks() if task.get_name() == "headrace producer"]
    sender.cancel()
    desk.gate.set()
    answers = await asyncio.wait_for(asyncio.gather(*callers), 5)
    assert [len(each) for each in answers] == [2, 2]
    assert await desk.stored() == 4
    await asyncio.wait_for(desk.append(message()), 5)
    assert await desk.stored() == 5


async def test_closing_waits_for_what_is_under_way(desk: Desk) -> None:
    desk.gate.clear()
    task = asyncio.create_task(desk.append(message()))
    await wait_until(lambda: desk.batches)
    closing = asyncio.create_task(desk.producer.close())
    await asyncio.sleep(0)
    assert not closing.done()
    desk.gate.set()
    await closing
    assert len(await task) == 1


async def test_a_lone_caller_that_goes_away_leaves_his_batch_to_be_sent_again(desk: Desk) -> None:
    desk.gate.clear()
    gone = asyncio.create_task(desk.append(message()))
    await wait_until(lambda: desk.batches)
    gone.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await gone
    desk.gate.set()
    await desk.producer.close()
    assert [batch.number for batch in desk.batches] == [1, 1]
    assert await desk.stored() == 1


async def test_what_gathered_behind_a_lone_caller_is_sent_when_he_goes_away(desk: Desk) -> None:
    desk.gate.clear()
    gone = asyncio.create_task(desk.append(message()))
    await wait_until(lambda: desk.batches)
    others = [asyncio.create_task(desk.append(message())) for _ in range(3)]
    await asyncio.sleep(0)
    gone.cancel()
    desk.gate.set()
    await asyncio.gather(*others)
    assert [(batch.number, len(batch.messages)) for batch in desk.batches] == [(1, 1), (1, 1), (2, 3)]
    assert await desk.stored() == 4


async def test_closing_waits_for_a_lone_message(desk: Desk) -> None:
    desk.gate.clear()
    sending = asyncio.create_task(desk.append(message()))
    await wait_until(lambda: desk.batches)
    closing = [asyncio.create_task(desk.producer.close()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in closing)
    desk.gate.set()
    await asyncio.gather(*closing)
    assert await desk.stored() == 1
    await sending


async def test_the_store_is_at_work_while_the_next_pages_are_written(desk: Desk) -> None:
    desk.gate.clear()
    sent = messages(2 * BATCH_MESSAGES + 30)

    def pages() -> Iterator[list[Message]]:
        yield sent[: BATCH_MESSAGES - 10]
        yield sent[BATCH_MESSAGES - 10 : BATCH_MESSAGES + 10]
        yield sent[BATCH_MESSAGES + 10 : BATCH_MESSAGES + 20]
        assert desk.sizes == [BATCH_MESSAGES]  # the first is under way
        desk.gate.set()
        yield sent[BATCH_MESSAGES + 20 :]

    answers = await desk.producer.append_pages(MAILS, pages(), len(sent), None)
    assert answers == [Answer(each.id) for each in sent]
    assert desk.sizes == [BATCH_MESSAGES, BATCH_MESSAGES, 30]
    assert await desk.stored() == len(sent)


async def test_no_page_is_written_after_one_has_failed(desk: Desk) -> None:
    desk.troubles = [BackendUnavailable("the disk is full")]
    written = 0

    def pages() -> Iterator[list[Message]]:
        nonlocal written
        for _ in range(1000):
            written += 1
            yield messages(BATCH_MESSAGES // 2)

    with pytest.raises(BackendUnavailable, match="the disk is full"):
        await desk.producer.append_pages(MAILS, pages(), 500 * BATCH_MESSAGES, None)
    assert written < 10
    assert await desk.stored() == 0
    await desk.append(message())


async def test_no_pages_have_no_answers(desk: Desk) -> None:
    assert await desk.producer.append_pages(MAILS, [], 0, None) == []
    assert desk.batches == []
