"""Batches on their way to parts, when answers are lost and layouts change in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from headrace.core.errors import BackendUnavailable, ConfigurationError, Moved, NotConfirmed
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream, UniqueKey
from headrace.core.messages.outcome import Done, Settlement
from headrace.core.records.answers import Answer, Wanted
from headrace.core.rules.layout import PARTS_MOST, Generation, Layout, part_stream, parts_of
from headrace.core.runtime.clock import MovableClock, microseconds
from headrace.engine.streams import StreamRouter
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore
from tests.support.queue_split_steps import propose, seal
from tests.support.waiting import wait_until

QUEUE = Stream("queue", "emails")
SOURCE = QUEUE


class Shaky(MemoryStore):
    """A store of which appends fail before or after they were carried out."""

    def __init__(self, store: SharedState) -> None:
        super().__init__(store, name="", clock=MovableClock())
        self.before: Callable[[Batch], bool] = lambda batch: False
        self.after: Callable[[Batch], bool] = lambda batch: False
        self.undurable = False
        self.once: Callable[[Batch], Awaitable[list[Answer]]] | None = None  # answers in place of the store
        self.appended: list[Batch] = []

    async def append(self, batch: Batch) -> list[Answer]:
        self.appended.append(batch)
        if self.once is not None:
            return await self.once(batch)
        if self.before(batch):
            raise BackendUnavailable("it was not sent", transient=True)
        answers = await super().append(batch)
        if self.after(batch):
            raise BackendUnavailable("the answer is lost", uncertain=True, transient=True)
        if self.undurable:
            raise NotConfirmed("not on two", answers=answers)
        return answers


class Process:
    """A process that produces and works, with what it knows of layouts."""

    def __init__(self, store: SharedState, name: str) -> None:
        self.inner = Shaky(store)
        self.backend = StreamRouter(self.inner)
        self._name = name
        self._numbers = count(1)

    def batch(self, *messages: Message, limit: int | None = None) -> Batch:
        return Batch(QUEUE, self._name, next(self._numbers), list(messages), limit)

    async def drain(self) -> list[str]:
        """Run all that is there; their ids, sorted."""
        await self.backend.layout(QUEUE)  # as with every beat
        await self.backend.declare_stream(SOURCE, microseconds(30))
        ids: list[str] = []
        while claims := await self.backend.claim([SOURCE], consumer="w", limit=7, suspects=0, wait=0):
            assert {claim.whole for claim in claims} == {QUEUE}
            await self.backend.settle([Settlement(claim, Done()) for claim in claims])
            ids += [claim.id for claim in claims]
        return sorted(ids)


@pytest.fixture
def store() -> SharedState:
    return SharedState()


@pytest.fixture
def one(store: SharedState) -> Process:
    return Process(store, "one")


@pytest.fixture
def two(store: SharedState) -> Process:
    return Process(store, "two")


def fresh(number: int) -> list[Message]:
    return [Message(new_id(), "greet", b"hello", fresh=True) for _ in range(number)]


def ids_of(messages: list[Message]) -> list[str]:
    return sorted(message.id for message in messages)


async def test_messages_are_spread_over_all_parts_and_answered_in_their_order(one: Process) -> None:
    await one.backend.split(QUEUE, 4)
    messages = fresh(200)
    answers = await one.backend.append(one.batch(*messages))
    assert [answer.id for answer in answers] == [message.id for message in messages]
    counts = [(await one.inner.counts(part)).queued for part in parts_of(QUEUE, Generation(1, 4))]
    assert sum(counts) == 200
    assert min(counts) > 20
    assert await one.drain() == ids_of(messages)


async def test_a_batch_of_which_one_part_refuses_its_share_is_uncertain(one: Process) -> None:
    """The other parts have stored theirs."""
    await one.backend.split(QUEUE, 3)
    refusing = parts_of(QUEUE, Generation(1, 3))[0]
    one.inner.before = lambda batch: batch.stream == refusing
    with pytest.raises(BackendUnavailable) as raised:
        await one.backend.append(one.batch(*fresh(60)))
    assert raised.value.uncertain


async def test_a_batch_is_uncertain_when_a_later_part_may_have_taken_its_share(one: Process) -> None:
    await one.backend.split(QUEUE, 2)
    refusing = parts_of(QUEUE, Generation(1, 2))[0]
    one.inner.before = lambda batch: batch.stream == refusing
    one.inner.after = lambda batch: batch.stream != refusing
    with pytest.raises(BackendUnavailable) as raised:
        await one.backend.append(one.batch(*fresh(60)))
    assert raised.value.uncertain


async def test_a_batch_that_every_part_refuses_is_not_uncertain(one: Process) -> None:
    await one.backend.split(QUEUE, 3)
    one.inner.before = lambda batch: True
    with pytest.raises(BackendUnavailable) as raised:
        await one.backend.append(one.batch(*fresh(60)))
    assert not raised.value.uncertain


async def test_a_producer_that_knows_the_old_layout_is_led_to_the_new_one(one: Process, two: Process) -> None:
    messages = fresh(20)
    await one.backend.append(one.batch(*messages[:10]))
    await two.backend.split(QUEUE, 3)
    await one.backend.append(one.batch(*messages[10:]))
    await two.backend.split(QUEUE, 2)
    late = fresh(10)
    await one.backend.append(one.batch(*late))
    current = parts_of(QUEUE, Generation(2, 2))
    assert sum([(await one.inner.counts(part)).queued for part in current]) == 10
    assert await two.drain() == ids_of([*messages, *late])


@pytest.mark.parametrize("sealed", [0, 1, 3])
async def test_whoever_meets_a_change_that_was_left_half_done_finishes_it(
    one: Process, two: Process, sealed: int
) -> None:
    """The one who began it died between two steps."""
    await one.backend.split(QUEUE, 3)
    before = fresh(30)
    await two.backend.append(two.batch(*before))
    layout = await propose(one.inner, QUEUE, 5)
    for part in parts_of(QUEUE, layout.current)[:sealed]:
        await seal(one.inner, part)
    after = fresh(30)
    await two.backend.append(two.batch(*after))
    stored = await one.inner.layout(QUEUE)
    if sealed:
        assert [(each.number, each.parts) for each in stored.generations] == [(0, 1), (1, 3), (2, 5)]
        assert not stored.proposed
    assert await one.drain() == ids_of([*before, *after])


@pytest.mark.parametrize("parts", [1, 3])
async def test_a_batch_whose_answer_was_lost_is_repeated_where_it_was(
    one: Process, two: Process, parts: int
) -> None:
    """Between the two tries the layout changes: the second must not be taken by other parts."""
    await one.backend.split(QUEUE, parts)
    await one.backend.append(one.batch(*fresh(1)))
    one.inner.after = lambda batch: True
    batch = one.batch(*fresh(20))
    with pytest.raises(BackendUnavailable):
        await one.backend.append(batch)
    await two.backend.split(QUEUE, 7)
    await one.backend.layout(QUEUE)  # it hears of it
    one.inner.after = lambda batch: False
    answers = await one.backend.append(batch)
    assert [answer.id for answer in answers] == [message.id for message in batch.messages]
    assert len(await one.drain()) == 21


@pytest.mark.parametrize("parts", [1, 3])
async def test_a_batch_that_was_not_sent_goes_to_the_new_parts(
    one: Process, two: Process, parts: int
) -> None:
    await one.backend.split(QUEUE, parts)
    await one.backend.append(one.batch(*fresh(1)))
    one.inner.before = lambda batch: True
    batch = one.batch(*fresh(20))
    with pytest.raises(BackendUnavailable):
        await one.backend.append(batch)
    await two.backend.split(QUEUE, 7)
    one.inner.before = lambda batch: False
    await one.backend.append(batch)
    assert len(await one.drain()) == 21


async def test_what_moved_waits_for_what_is_not_answered(one: Process, two: Process) -> None:
    """For one batch, one part answers that it moved, and the answer of another part is lost. A part of the
    new generation gets the number of the batch once, with all messages that go there."""
    await one.backend.split(QUEUE, 3)
    await one.backend.append(one.batch(*fresh(1)))
    unlucky = part_stream(QUEUE, 1, 1)
    await two.backend.split(QUEUE, 2)
    one.inner.before = lambda batch: batch.stream == unlucky
    batch = one.batch(*fresh(40))
    with pytest.raises(BackendUnavailable):
        await one.backend.append(batch)
    assert not any("#2." in each.stream.name for each in one.inner.appended)
    one.inner.before = lambda batch: False
    answers = await one.backend.append(batch)
    assert {answer.verdict for answer in answers} == {"accepted"}
    assert len(await two.drain()) == 41


async def test_an_append_that_is_cancelled_can_be_repeated(one: Process, two: Process) -> None:
    await one.backend.split(QUEUE, 3)
    batch = one.batch(*fresh(40))
    task = asyncio.create_task(one.backend.append(batch))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await two.backend.split(QUEUE, 2)
    assert len(await one.backend.append(batch)) == 40
    assert await one.drain() == ids_of(batch.messages)


async def test_what_is_not_durable_is_told_of_all_parts_together(one: Process) -> None:
    await one.backend.split(QUEUE, 3)
    one.inner.undurable = True
    batch = one.batch(*fresh(20))
    with pytest.raises(NotConfirmed) as caught:
        await one.backend.append(batch)
    assert [answer.id for answer in caught.value.answers] == [message.id for message in batch.messages]


@pytest.mark.parametrize("parts", [None, 3], ids=["whole", "split"])
async def test_what_was_taken_before_a_seal_and_is_not_durable_is_told_in_the_end(
    one: Process, parts: int | None
) -> None:
    if parts:
        await one.backend.split(QUEUE, parts)
    await one.backend.append(one.batch(*fresh(1)))
    append, [first, *others] = one.inner.append, fresh(20)

    async def sealed_between(batch: Batch) -> list[Answer]:
        one.inner.once = None
        taken = [message for message in batch.messages if message is first]
        await append(Batch(batch.stream, batch.producer, batch.number, taken))
        await StreamRouter(one.inner).split(QUEUE, 2)
        answers = [Answer(each.id) if each is first else None for each in batch.messages]
        moved = Moved("sealed", answers=answers)
        moved.undurable = NotConfirmed("not on two", answers=[Answer(first.id)])
        raise moved

    one.inner.once = sealed_between
    with pytest.raises(NotConfirmed) as caught:
        await one.backend.append(one.batch(first, *others))
    assert [answer.id for answer in caught.value.answers] == [each.id for each in (first, *others)]
    assert len(await one.drain()) == 21


async def test_ids_and_keys_are_known_over_changes(one: Process, two: Process) -> None:
    keyed = Message("one", "greet", b"", unique=UniqueKey("key"))
    given = Message("given", "greet", b"")
    await one.backend.append(one.batch(keyed, given))
    for parts in (3, 5, 1):
        await two.backend.split(QUEUE, parts)
        again = [Message(new_id(), "greet", b"", unique=UniqueKey("key")), given]
        answers = await one.backend.append(one.batch(*again))
        assert answers == [Answer("one", "duplicate"), Answer("given", "duplicate")]
        assert await two.backend.holders(QUEUE, [Wanted(key="key")]) == ["one"]
    assert await one.drain() == ["given", "one"]
    assert (await one.backend.append(one.batch(keyed)))[0].verdict == "accepted"


async def test_a_limit_holds_for_each_part(one: Process) -> None:
    await one.backend.split(QUEUE, 2)
    answers = await one.backend.append(one.batch(*fresh(100), limit=10))
    assert [answer.verdict for answer in answers].count("accepted") == 20


async def test_a_sealed_part_of_which_nothing_says_why_is_left_for_a_new_generation(one: Process) -> None:
    """The proposal was lost with a server, the seal was not."""
    before, after = fresh(3), fresh(3)
    await one.backend.append(one.batch(*before))
    await seal(one.inner, QUEUE)
    await one.backend.append(one.batch(*after))
    assert [each.parts for each in (await one.backend.layout(QUEUE)).generations] == [1, 1]
    assert await one.drain() == ids_of(before + after)


async def test_what_lies_in_a_generation_of_which_nobody_knows_any_more_is_found(store: SharedState) -> None:
    """A failover took back the change, and the process that made it and appended by it is gone."""
    gone, new = Process(store, "gone"), Process(store, "new")
    before, after = fresh(40), fresh(3)
    await gone.backend.split(QUEUE, 5)
    await gone.backend.append(gone.batch(*before))
    del store.layouts[QUEUE]
    await new.backend.append(new.batch(*after))
    assert [each.parts for each in (await new.backend.layout(QUEUE)).generations] == [1, 5]
    assert await new.drain() == ids_of(before + after)


@pytest.mark.parametrize("left", [Layout(), Layout(proposed=3)], ids=["nothing", "the proposal"])
async def test_a_change_that_a_failover_took_back_is_stored_again_with_its_seals(
    store: SharedState, one: Process, two: Process, left: Layout
) -> None:
    before, between, after = fresh(2), fresh(20), fresh(20)
    await two.backend.append(two.batch(*before))  # it knows the whole stream
    await one.backend.split(QUEUE, 3)
    await one.backend.append(one.batch(*between))
    store.layouts[QUEUE] = left
    store.stream_state(QUEUE).sealed = False
    await one.backend.layout(QUEUE)  # as with every beat
    two.inner.appended.clear()
    await two.backend.append(two.batch(*after))
    assert {batch.stream for batch in two.inner.appended} == {QUEUE, *parts_of(QUEUE, Generation(1, 3))}
    assert await Process(store, "new").drain() == ids_of(before + between + after)


async def test_a_layout_that_was_lost_is_stored_again_by_whoever_knows_it(
    store: SharedState, one: Process
) -> None:
    """The store was emptied by hand. What is appended from now on must be where a new process looks."""
    await one.backend.split(QUEUE, 3)
    await one.backend.append(one.batch(*fresh(10)))
    store.stream_states.clear()
    store.layouts.clear()
    messages = fresh(20)
    await one.backend.append(one.batch(*messages))
    await one.backend.layout(QUEUE)  # as with every beat
    assert await Process(store, "new").drain() == ids_of(messages)


async def test_who_changes_a_layout_stores_first_what_he_knows_of_it(
    store: SharedState, one: Process
) -> None:
    """Else a new generation would get the number of the one that was lost, and not all its parts."""
    messages = fresh(40)
    await one.backend.split(QUEUE, 6)
    await one.backend.append(one.batch(*messages))
    del store.layouts[QUEUE]
    await one.backend.split(QUEUE, 2)
    assert await Process(store, "new").drain() == ids_of(messages)


async def test_after_an_outage_a_producer_asks_again_how_a_stream_is_laid_out(
    store: SharedState, one: Process
) -> None:
    """It alone knows of a change that was lost in between."""
    await one.backend.split(QUEUE, 3)
    one.inner.before = lambda batch: True
    batch = one.batch(*fresh(20))
    with pytest.raises(BackendUnavailable):
        await one.backend.append(batch)
    del store.layouts[QUEUE]
    one.inner.before = lambda batch: False
    await one.backend.append(batch)
    await wait_until(lambda: QUEUE in store.layouts)
    assert await Process(store, "new").drain() == ids_of(batch.messages)


async def test_a_second_change_waits_for_the_first(one: Process, two: Process) -> None:
    await propose(one.inner, QUEUE, 4)
    layout = await two.backend.split(QUEUE, 2)
    assert [each.parts for each in layout.generations] == [1, 4, 2]


async def test_parts_of_all_layouts_together_are_bounded(one: Process) -> None:
    """Workers wait at those from before as well, for a week."""
    for parts in (PARTS_MOST, 63, PARTS_MOST, 62):
        await one.backend.split(QUEUE, parts)
    with pytest.raises(ConfigurationError, match="forgotten when they are empty and a week old"):
        await one.backend.split(QUEUE, 50)
    layout = await one.backend.split(QUEUE, 2)
    assert (layout.current.parts, layout.proposed) == (2, 0)
    assert (await one.backend.append(one.batch(*fresh(1))))[0].verdict == "accepted"


async def test_many_that_change_at_once_end_with_one_layout(store: SharedState) -> None:
    processes = [Process(store, f"p{number}") for number in range(4)]
    batches = [fresh(50) for _ in processes]

    async def work(process: Process, messages: list[Message], parts: int) -> None:
        for start in range(0, 50, 10):
            await process.backend.append(process.batch(*messages[start : start + 10]))
            await process.backend.split(QUEUE, parts)

    await asyncio.gather(*(work(*each) for each in zip(processes, batches, (2, 3, 4, 5), strict=True)))
    layouts = [await process.backend.layout(QUEUE) for process in processes]
    assert layouts == [layouts[0]] * 4
    assert isinstance(layouts[0], Layout)
    assert await processes[0].drain() == ids_of([message for some in batches for message in some])
