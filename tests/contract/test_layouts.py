"""Layouts: which parts a stream has, as the store itself keeps it."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.backend import Answer, Backend, ReplayAnswer
from headrace.core.clock import SECOND
from headrace.core.errors import Moved
from headrace.core.ids import new_id
from headrace.core.layout import WHOLE, Generation, Layout, part_stream, parts_of
from headrace.core.message import Batch, Message, Stream, UniqueKey
from headrace.core.orders import LayoutOrder, Order
from headrace.core.topics import TopicRules
from tests.contract.stand import Stand
from tests.waiting import wait_until

pytestmark = pytest.mark.whole("what it splits is whole before")

QUEUE = Stream("queue", "work")
TOPIC = Stream("topic", "orders")


@pytest.fixture
def inner(stand: Stand) -> Backend:
    """The store of the stand, without what stands in front of it."""
    return stand.inner


@pytest.fixture(params=[QUEUE, TOPIC], ids=["queue", "topic"])
async def stream(request: pytest.FixtureRequest, inner: Backend) -> Stream:
    stream: Stream = request.param
    if stream.kind == "topic":
        await inner.arrange(stream, TopicRules())
    return stream


def message(id: str | None = None, *, unique: UniqueKey | None = None, fresh: bool = False) -> Message:
    return Message(id or new_id(), "greet", b"hello", unique=unique, fresh=fresh)


def batch(stream: Stream, number: int, *messages: Message) -> Batch:
    return Batch(stream, "producer", number, list(messages))


async def split(inner: Backend, stream: Stream, parts: int) -> Layout:
    proposed = await inner.propose(stream, parts)
    for part in parts_of(stream, proposed.current):
        await inner.seal(part)
    return await inner.adopt(stream, proposed)


# --- layouts ------------------------------------------------------------------------------------------------


async def test_a_stream_of_which_nothing_is_stored_is_whole(inner: Backend) -> None:
    assert await inner.layout(Stream("queue", "unknown")) == WHOLE
    assert WHOLE.whole
    assert WHOLE.current == Generation(0, 1)


async def test_a_proposal_is_stored_and_seen_by_others(stand: Stand, inner: Backend, stream: Stream) -> None:
    layout = await inner.propose(stream, 3)
    assert layout == Layout((Generation(0, 1),), 3)
    assert await (await stand.other()).layout(stream) == layout
    assert layout.whole  # until it is adopted


async def test_the_first_proposal_stands(inner: Backend, stream: Stream) -> None:
    await inner.propose(stream, 3)
    assert (await inner.propose(stream, 5)).proposed == 3
    assert (await inner.layout(stream)).proposed == 3


async def test_the_number_that_is_there_is_no_proposal(inner: Backend, stream: Stream) -> None:
    assert await inner.propose(stream, 1) == WHOLE
    layout = await split(inner, stream, 3)
    assert await inner.propose(stream, 3) == layout


async def test_a_proposal_is_adopted_once(stand: Stand, inner: Backend, stream: Stream) -> None:
    proposed = await inner.propose(stream, 3)
    adopted = await inner.adopt(stream, proposed)
    sealed, current = adopted.generations
    assert (sealed.number, sealed.parts) == (0, 1)
    assert abs(sealed.sealed_us - stand.now_us()) < 60 * SECOND
    assert current == Generation(1, 3)
    assert adopted.proposed == 0
    assert not adopted.whole
    assert await inner.adopt(stream, proposed) == adopted
    assert await inner.layout(stream) == adopted


async def test_of_many_that_adopt_at_once_all_get_the_same(
    stand: Stand, inner: Backend, stream: Stream
) -> None:
    others = [(await stand.other()) for _ in range(2)]
    proposed = await inner.propose(stream, 3)
    answers = await asyncio.gather(*(each.adopt(stream, proposed) for each in [inner, *others] * 3))
    assert len({answer.generations for answer in answers}) == 1


async def test_without_a_proposal_nothing_is_adopted(inner: Backend, stream: Stream) -> None:
    assert await inner.adopt(stream, WHOLE) == WHOLE


async def test_a_second_change_makes_a_third_generation(inner: Backend, stream: Stream) -> None:
    await split(inner, stream, 3)
    layout = await split(inner, stream, 2)
    assert [(each.number, each.parts) for each in layout.generations] == [(0, 1), (1, 3), (2, 2)]
    assert [bool(each.sealed_us) for each in layout.generations] == [True, True, False]


async def test_a_sealed_generation_can_be_forgotten(inner: Backend, stream: Stream) -> None:
    await split(inner, stream, 3)
    for part in parts_of(stream, Generation(1, 3)):
        await inner.append(batch(part, 1))  # nothing
    await split(inner, stream, 2)
    layout = await inner.forget(stream, 1)
    assert [each.number for each in layout.generations] == [0, 2]
    assert await inner.layout(stream) == layout
    for part in parts_of(stream, Generation(1, 3)):
        await inner.drop(part)
    assert not any("#1." in each.name for each in await inner.streams())


async def test_neither_the_whole_stream_nor_the_current_generation_is_forgotten(
    inner: Backend, stream: Stream
) -> None:
    layout = await split(inner, stream, 3)
    assert await inner.forget(stream, 0) == layout
    assert await inner.forget(stream, 1) == layout
    assert await inner.forget(stream, 7) == layout


async def test_what_a_forgotten_part_had_is_gone(inner: Backend, stand: Stand) -> None:
    await split(inner, QUEUE, 3)
    part = part_stream(QUEUE, 1, 0)
    await inner.append(batch(part, 1, message()))
    assert part in await inner.streams()
    assert await inner.purge(part, mark_us=0, limit=10) == 1
    await split(inner, QUEUE, 2)
    await inner.forget(QUEUE, 1)
    for _ in range(2):
        await inner.drop(part)
        assert part not in await inner.streams()


async def test_a_layout_that_was_lost_can_be_restored(inner: Backend, stream: Stream) -> None:
    lost = Layout((Generation(0, 1, 7), Generation(3, 4)))
    assert await inner.restore(stream, lost) == lost
    assert await inner.layout(stream) == lost
    assert await inner.restore(stream, Layout((Generation(0, 1, 7), Generation(1, 2)))) == lost


async def test_a_layout_that_a_failover_took_back_can_be_restored(inner: Backend, stream: Stream) -> None:
    """What comes after what stands there replaces it, step by step; what is as old does not."""
    first = await split(inner, stream, 3)
    proposed = Layout(first.generations, 5)
    assert await inner.restore(stream, proposed) == proposed
    assert await inner.restore(stream, Layout(first.generations, 4)) == proposed
    adopted = proposed.with_adoption(7)
    assert await inner.restore(stream, adopted) == adopted
    assert await inner.restore(stream, proposed) == adopted
    assert await inner.layout(stream) == adopted


async def test_changes_are_announced(inner: Backend, stream: Stream) -> None:
    heard: list[Order] = []
    stop = inner.listen(heard.append)
    try:
        proposed = await inner.propose(stream, 3)
        await wait_until(lambda: heard == [LayoutOrder(stream)])
        await inner.propose(stream, 4)  # nothing changes
        await inner.adopt(stream, proposed)
        await wait_until(lambda: heard == [LayoutOrder(stream)] * 2)
    finally:
        stop()


# --- sealed parts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fresh", [True, False])
async def test_a_sealed_part_takes_nothing_new(inner: Backend, stream: Stream, fresh: bool) -> None:
    await inner.seal(stream)
    await inner.seal(stream)
    with pytest.raises(Moved) as caught:
        await inner.append(batch(stream, 1, message(fresh=fresh), message(fresh=fresh)))
    assert caught.value.answers == [None, None]
    assert (await inner.counts(stream)).queued == 0


async def test_a_sealed_part_answers_what_it_had_taken_before(inner: Backend, stream: Stream) -> None:
    first, second = batch(stream, 1, message()), batch(stream, 2, message())
    assert await inner.append(first) == [Answer(first.messages[0].id)]
    await inner.seal(stream)
    assert await inner.append(first) == [Answer(first.messages[0].id)]
    with pytest.raises(Moved):
        await inner.append(second)
    assert await inner.append(first) == [Answer(first.messages[0].id)]
    assert (await inner.counts(stream)).queued == 1


async def test_a_part_can_be_sealed_before_anything_was_in_it(inner: Backend, stand: Stand) -> None:
    part = part_stream(QUEUE, 1, 4)
    await inner.seal(part)
    with pytest.raises(Moved):
        await inner.append(batch(part, 1, message()))


async def test_what_lies_in_a_sealed_part_goes_on(inner: Backend, stand: Stand) -> None:
    ids = [await stand.add(), await stand.add(), await stand.add(delay=10)]
    await inner.seal(QUEUE)
    first, second = await stand.claim(by=inner)
    await stand.retry(first, delay=5)
    await stand.die(second)
    assert await inner.replay(QUEUE, [second.id]) == [ReplayAnswer.REPLAYED]
    await stand.advance(20)
    await stand.promote()
    assert sorted([claim.id for claim in await stand.claim(by=inner)]) == sorted(ids)


async def test_schedules_fire_into_a_sealed_queue(inner: Backend, stand: Stand) -> None:
    await inner.establish(QUEUE, ["nightly"])
    await inner.seal(QUEUE)
    await stand.advance(60)
    expected_us = (await inner.schedules([QUEUE])).records[0].last_us
    due = message()
    assert await inner.tick(
        QUEUE, "nightly", expected_us=expected_us, next_us=expected_us + SECOND, messages=[due]
    )
    assert [claim.id for claim in await stand.claim(by=inner)] == [due.id]


async def test_to_seal_a_part_of_a_topic_leaves_the_others(inner: Backend, stand: Stand) -> None:
    one, two = part_stream(TOPIC, 1, 0), part_stream(TOPIC, 1, 1)
    await inner.seal(one)
    with pytest.raises(Moved):
        await inner.append(batch(one, 1, message(), message()))
    assert len(await inner.append(batch(two, 1, message()))) == 1


# --- who stands in the way ----------------------------------------------------------------------------------


async def test_ids_and_keys_that_are_known_have_a_holder(inner: Backend, stand: Stand) -> None:
    waiting = await stand.add("given")
    keyed = await stand.add(unique=UniqueKey("key"))
    asked = [
        message("given"),
        message(unique=UniqueKey("key")),
        message("given", unique=UniqueKey("other")),
        message(),
        message(unique=UniqueKey("other")),
    ]
    assert await inner.holders(QUEUE, asked) == [waiting, keyed, waiting, None, None]
    assert await inner.holders(QUEUE, []) == []
    assert await inner.holders(Stream("queue", "unknown"), asked) == [None] * 5
    assert (await inner.counts(QUEUE)).queued == 2


async def test_a_key_that_was_released_has_no_holder(inner: Backend, stand: Stand) -> None:
    claim = await stand.running(unique=UniqueKey("key"))
    assert await inner.holders(QUEUE, [message(unique=UniqueKey("key"))]) == [claim.id]
    await stand.die(claim)
    # The id is known as long as the dead letter is; the key is free.
    assert await inner.holders(QUEUE, [message(unique=UniqueKey("key")), message(claim.id)]) == [
        None,
        claim.id,
    ]


async def test_a_mark_and_a_span_hold_until_their_time_has_passed(inner: Backend, stand: Stand) -> None:
    span = UniqueKey("span", "elapsed", 100 * SECOND)
    claim = await stand.running(unique=span)
    await stand.settle_done(claim, value=b"result", ttl=100)
    asked = [message(claim.id), message(unique=span)]
    assert await inner.holders(QUEUE, asked) == [claim.id, claim.id]
    await stand.advance(101)
    assert await inner.holders(QUEUE, asked) == [None, None]


async def test_in_a_topic_only_keys_are_held(inner: Backend, stand: Stand) -> None:
    await inner.arrange(TOPIC, TopicRules())
    event = message(unique=UniqueKey("order-1", "elapsed", 60 * SECOND))
    await inner.append(batch(TOPIC, 1, event))
    asked = [message(event.id), message(unique=UniqueKey("order-1", "elapsed", 60 * SECOND))]
    assert await inner.holders(TOPIC, asked) == [None, event.id]
