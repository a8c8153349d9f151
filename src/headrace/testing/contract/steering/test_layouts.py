"""Layouts: the store keeps which parts a stream has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace.core.errors import Moved
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream, UniqueKey, group_stream
from headrace.core.records.answers import Answer, ReplayAnswer, Wanted
from headrace.core.records.control import ControlMessage, LayoutNotice
from headrace.core.rules.layout import SEALED, WHOLE, Generation, Layout, layout_of_topic, part_stream
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule_record import advance, establish
from headrace.core.store import PartitionedStore
from headrace.core.topics.topic import BEGINNING, TopicRules
from headrace.engine.streams.layouts import StoredLayouts
from headrace.testing.contract.kit.stand import Stand, inner_of
from headrace.testing.waiting import wait_until

pytestmark = pytest.mark.whole("what it splits is whole before")

QUEUE = Stream("queue", "work")
TOPIC = Stream("topic", "orders")

PROPOSED = Layout((Generation(0, 1),), 3)
SPLIT = Layout((Generation(0, 1, 7), Generation(1, 3)), sealed=True)


@pytest.fixture
def inner(stand: Stand) -> PartitionedStore:
    """The store of the stand, without the router."""
    return stand.inner


def message(id: str | None = None, *, unique: UniqueKey | None = None, fresh: bool = False) -> Message:
    return Message(id or new_id(), "greet", b"hello", unique=unique, fresh=fresh)


def batch(stream: Stream, number: int, *messages: Message) -> Batch:
    return Batch(stream, "producer", number, list(messages))


# --- layouts ------------------------------------------------------------------------------------------------


async def test_a_stream_of_which_nothing_is_stored_is_whole(inner: PartitionedStore) -> None:
    assert await inner.layout(Stream("queue", "unknown")) == WHOLE
    assert WHOLE.whole
    assert WHOLE.current == Generation(0, 1)


@pytest.mark.parametrize("stream", [QUEUE, TOPIC], ids=["queue", "topic"])
async def test_a_layout_is_stored_and_seen_by_others(
    stand: Stand, inner: PartitionedStore, stream: Stream
) -> None:
    assert await inner.swap_layout(stream, WHOLE, SPLIT) == SPLIT
    assert await (await stand.other()).layout(stream) == SPLIT


async def test_a_layout_is_replaced_only_where_it_was_expected(inner: PartitionedStore) -> None:
    assert await inner.swap_layout(QUEUE, SPLIT, PROPOSED) == WHOLE
    assert await inner.swap_layout(QUEUE, WHOLE, PROPOSED) == PROPOSED
    assert await inner.swap_layout(QUEUE, WHOLE, SPLIT) == PROPOSED
    assert await inner.swap_layout(QUEUE, PROPOSED, SPLIT) == SPLIT
    assert await inner.swap_layout(QUEUE, PROPOSED, SPLIT) == SPLIT  # a repeat finds what it wanted
    assert await inner.layout(QUEUE) == SPLIT


async def test_of_many_that_swap_at_once_one_succeeds(stand: Stand, inner: PartitionedStore) -> None:
    stores = [inner, *[inner_of(await stand.other()) for _ in range(2)]]
    wanted = [Layout((Generation(0, 1),), parts) for parts in range(2, 8)]
    swaps = (stores[index % 3].swap_layout(QUEUE, WHOLE, each) for index, each in enumerate(wanted))
    answers = await asyncio.gather(*swaps)
    assert set(answers) == {await inner.layout(QUEUE)}


async def test_the_layout_of_a_topic_is_decided_before_its_first_use(inner: PartitionedStore) -> None:
    parted = layout_of_topic(3)
    for name in ("written", "due-later", "declared", "joined"):
        topic = Stream("topic", name)
        match name:
            case "written":
                await inner.append(batch(topic, 1, message()))
            case "due-later":
                await inner.append(
                    batch(topic, 1, Message(new_id(), "greet", b"hello", delay_us=60 * SECOND))
                )
            case "declared":
                await inner.declare_topic(topic, TopicRules())
            case _:
                await inner.join(group_stream(name, "billing"), BEGINNING)
        assert await inner.swap_layout(topic, WHOLE, parted) == WHOLE
        assert await inner.layout(topic) == WHOLE
        assert len(await inner.append(batch(topic, 2, message()))) == 1


async def test_of_those_who_make_a_topic_at_once_one_decides(stand: Stand, inner: PartitionedStore) -> None:
    other = inner_of(await stand.other())
    for number in range(5):
        topic = Stream("topic", f"made-{number}")
        swapped, written = await asyncio.gather(
            inner.swap_layout(topic, WHOLE, layout_of_topic(3)),
            other.append(batch(topic, 1, message())),
            return_exceptions=True,
        )
        assert (swapped == WHOLE) is not isinstance(written, Moved)


async def test_changes_are_announced(inner: PartitionedStore) -> None:
    heard: list[ControlMessage] = []
    stop = inner.listen(heard.append)
    try:
        await inner.swap_layout(QUEUE, WHOLE, PROPOSED)
        await wait_until(lambda: heard == [LayoutNotice(QUEUE)])
        await inner.swap_layout(QUEUE, WHOLE, SPLIT)  # nothing changes
        await inner.swap_layout(QUEUE, PROPOSED, SPLIT)
        await wait_until(lambda: heard == [LayoutNotice(QUEUE)] * 2)
    finally:
        stop()


async def test_what_a_removed_part_had_is_gone(inner: PartitionedStore) -> None:
    part = part_stream(QUEUE, 1, 0)
    await inner.append(batch(part, 1, message()))
    assert await inner.purge(part, ttl_us=0, limit=10) == 1
    assert part in await inner.streams()
    await StoredLayouts(inner).seal(part)
    for removed in (True, False):
        assert await inner.remove_stream(part) is removed
        assert part not in await inner.streams()
    assert await inner.layout(part) == WHOLE


# --- sealed streams -----------------------------------------------------------------------------------------


async def sealed(inner: PartitionedStore, stream: Stream) -> None:
    """A queue in use, or a topic without events and groups."""
    if stream.kind == "queue":
        await StoredLayouts(inner).seal(stream)
    else:
        await inner.swap_layout(stream, WHOLE, layout_of_topic(3))


@pytest.mark.parametrize("stream", [QUEUE, TOPIC], ids=["queue", "topic"])
@pytest.mark.parametrize("fresh", [True, False])
async def test_a_sealed_stream_takes_nothing_new(
    inner: PartitionedStore, stream: Stream, fresh: bool
) -> None:
    await sealed(inner, stream)
    with pytest.raises(Moved) as caught:
        await inner.append(batch(stream, 1, message(fresh=fresh), message(fresh=fresh)))
    assert caught.value.answers == [None, None]
    assert (await inner.counts(stream)).queued == 0


async def test_a_sealed_part_answers_what_it_had_taken_before(inner: PartitionedStore) -> None:
    first, second = batch(QUEUE, 1, message()), batch(QUEUE, 2, message())
    assert await inner.append(first) == [Answer(first.messages[0].id)]
    await StoredLayouts(inner).seal(QUEUE)
    assert await inner.append(first) == [Answer(first.messages[0].id)]
    with pytest.raises(Moved):
        await inner.append(second)
    assert await inner.append(first) == [Answer(first.messages[0].id)]
    assert (await inner.counts(QUEUE)).queued == 1


async def test_a_part_can_be_sealed_before_anything_was_in_it(inner: PartitionedStore) -> None:
    part = part_stream(QUEUE, 1, 4)
    await StoredLayouts(inner).seal(part)
    with pytest.raises(Moved):
        await inner.append(batch(part, 1, message()))


async def test_a_stream_that_is_sealed_no_more_takes_messages_again(inner: PartitionedStore) -> None:
    await StoredLayouts(inner).seal(QUEUE)
    assert await inner.swap_layout(QUEUE, SEALED, WHOLE) == WHOLE
    assert len(await inner.append(batch(QUEUE, 1, message()))) == 1


async def test_what_lies_in_a_sealed_part_goes_on(inner: PartitionedStore, stand: Stand) -> None:
    ids = [await stand.add(), await stand.add(), await stand.add(delay=10)]
    await StoredLayouts(inner).seal(QUEUE)
    first, second = await stand.claim(by=inner)
    await stand.retry(first, delay=5)
    await stand.die(second)
    assert await inner.replay(QUEUE, [second.id]) == [ReplayAnswer.REPLAYED]
    await stand.advance(20)
    await stand.promote()
    assert sorted([claim.id for claim in await stand.claim(by=inner)]) == sorted(ids)


async def test_schedules_fire_into_a_sealed_queue(inner: PartitionedStore, stand: Stand) -> None:
    await inner.swap_schedules([establish(QUEUE, "nightly")])
    await StoredLayouts(inner).seal(QUEUE)
    await stand.advance(60)
    [record] = (await inner.schedules([QUEUE])).records
    due = message()
    [fired] = await inner.swap_schedules([advance(record, record.last_us + SECOND, [due])])
    assert fired.done
    assert [claim.id for claim in await stand.claim(by=inner)] == [due.id]


async def test_a_sealed_topic_is_neither_declared_nor_joined(inner: PartitionedStore) -> None:
    await sealed(inner, TOPIC)
    with pytest.raises(Moved):
        await inner.declare_topic(TOPIC, TopicRules())
    with pytest.raises(Moved):
        await inner.join(group_stream(TOPIC.name, "billing"), BEGINNING)
    assert await inner.topics([TOPIC.name]) == []
    part = part_stream(TOPIC, 1, 1)
    await inner.declare_topic(part, TopicRules())
    assert await inner.join(group_stream(part.name, "billing"), BEGINNING)
    assert len(await inner.append(batch(part, 1, message()))) == 1


# --- who stands in the way ----------------------------------------------------------------------------------


def wanted(messages: Sequence[Message]) -> list[Wanted]:
    return [Wanted.by(message) for message in messages]


async def test_ids_and_keys_that_are_known_have_a_holder(stand: Stand) -> None:
    store = stand.backend.store
    waiting = await stand.add("given")
    keyed = await stand.add(unique=UniqueKey("key"))
    asked = [
        message("given"),
        message(unique=UniqueKey("key")),
        message("given", unique=UniqueKey("other")),
        message(),
        message(unique=UniqueKey("other")),
    ]
    assert await store.holders(QUEUE, wanted(asked)) == [waiting, keyed, waiting, None, None]
    assert await store.holders(QUEUE, []) == []
    assert await store.holders(Stream("queue", "unknown"), wanted(asked)) == [None] * 5
    assert (await store.counts(QUEUE)).queued == 2


async def test_a_key_that_was_released_has_no_holder(stand: Stand) -> None:
    store = stand.backend.store
    claim = await stand.running(unique=UniqueKey("key"))
    assert await store.holders(QUEUE, [Wanted(key="key")]) == [claim.id]
    await stand.die(claim)
    # The id is known as long as the dead letter is; the key is free.
    assert await store.holders(QUEUE, [Wanted(key="key"), Wanted(claim.id)]) == [None, claim.id]


async def test_an_end_record_and_a_span_hold_until_their_time_has_passed(stand: Stand) -> None:
    store = stand.backend.store
    span = UniqueKey("span", "elapsed", 100 * SECOND)
    claim = await stand.running(unique=span)
    await stand.settle_done(claim, value=b"result", ttl=100)
    asked = [message(claim.id), message(unique=span)]
    assert await store.holders(QUEUE, wanted(asked)) == [claim.id, claim.id]
    await stand.advance(101)
    assert await store.holders(QUEUE, wanted(asked)) == [None, None]


async def test_in_a_topic_only_keys_are_held(stand: Stand) -> None:
    store = stand.backend.store
    await store.declare_topic(TOPIC, TopicRules())
    event = message(unique=UniqueKey("order-1", "elapsed", 60 * SECOND))
    await store.append(batch(TOPIC, 1, event))
    asked = [message(event.id), message(unique=UniqueKey("order-1", "elapsed", 60 * SECOND))]
    assert await store.holders(TOPIC, wanted(asked)) == [None, event.id]
