"""Ordered groups with stuck keys: other keys go on, no event is lost, and the order holds."""

from __future__ import annotations

from collections import defaultdict

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.records.answers import CancelAnswer
from headrace.core.topics.topic import (
    BEGINNING,
    KEYS_DEFERRED_MOST,
    NEW,
    ORDER_HELD_FOR,
    PARKED_MOST,
    PARKED_OF_KEY,
)
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.stand import HOUR_US
from headrace.testing.contract.kit.waits import claimed

#: More events of a key than are parked.
MANY = [f"a-{number:04}" for number in range(PARKED_OF_KEY + 60)]


@pytest.fixture
async def group(orders: Orders) -> Stream:
    return await orders.join(ordered=True)


async def stick(orders: Orders, group: Stream, *ids: str, key: str = "a") -> Claim:
    """An event of a key that is running, and these behind it."""
    await orders.publish(f"{key}-first", key=key)
    (running,) = await orders.claim(group)
    await orders.publish(*ids, key=key)
    assert await orders.claim(group) == []
    return running


async def claim_all(orders: Orders, group: Stream) -> list[str]:
    """Everything that can be claimed. One claim draws only some events of each part."""
    ids: list[str] = []
    while some := await orders.claim_ids(group):
        ids += some
    return ids


async def test_a_stuck_key_stops_no_other(orders: Orders, group: Stream) -> None:
    await orders.publish("first", key="a")
    await orders.claim_one(group, "first")
    for start in range(0, PARKED_MOST, 500):
        await orders.publish(*[f"a-{number}" for number in range(start, start + 500)], key="a")
    await orders.publish_keys(b1="b", b2="b", free="")
    assert sorted(await claim_all(orders, group)) == ["b1", "free"]
    await orders.publish("c1", key="c")
    assert await claim_all(orders, group) == ["c1"]


async def test_of_a_stuck_key_so_many_are_parked_and_the_others_are_lag(
    orders: Orders, group: Stream
) -> None:
    await stick(orders, group, *MANY)
    record = await orders.group_record(group)
    assert (record.counts.queued, record.lag) == (PARKED_OF_KEY, len(MANY) - PARKED_OF_KEY)
    assert (await orders.backend.counts(group)).queued == len(MANY)
    assert record.oldest_us > 0


async def test_a_key_that_was_stuck_goes_on_in_its_order(orders: Orders, group: Stream) -> None:
    running = await stick(orders, group, *MANY)
    await orders.publish("late", key="a")
    await orders.done([running])
    assert await orders.finish(group) == [*MANY, "late"]
    record = await orders.group_record(group)
    assert (record.counts.queued, record.lag) == (0, 0)


async def test_several_stuck_keys_go_on_in_their_order(orders: Orders, group: Stream) -> None:
    keys = "abcd"
    running = {key: await stick(orders, group, key=key) for key in keys}
    ids = [f"{keys[number % 4]}-{number:04}" for number in range(4 * (PARKED_OF_KEY + 30))]
    for start in range(0, len(ids), 100):
        await orders.publish_keys(**{id: id[0] for id in ids[start : start + 100]})
    assert await orders.claim(group) == []
    for key in keys[:3]:
        await orders.done([running[key]])
    seen: defaultdict[str, list[str]] = defaultdict(list)
    for id in await orders.finish(group):
        seen[id[0]].append(id)
    assert seen == {key: [id for id in ids if id[0] == key] for key in "abc"}
    await orders.done([running["d"]])
    assert await orders.finish(group) == [id for id in ids if id[0] == "d"]


async def test_a_key_that_catches_up_brings_no_event_of_another_again(orders: Orders, group: Stream) -> None:
    """What is read for one key has events of another that were handled before that one was stuck."""
    running = await stick(orders, group, *MANY)
    await orders.publish("early", key="b")
    await orders.done(await orders.claim(group))
    await orders.publish("late", key="a")
    others = [f"b-{number:04}" for number in range(PARKED_OF_KEY + 60)]
    other = await stick(orders, group, *others, key="b")
    await orders.done([running])
    assert await orders.finish(group) == [*MANY, "late"]
    await orders.done([other])
    assert await orders.finish(group) == others


async def test_a_key_that_has_caught_up_is_as_any_other(orders: Orders, group: Stream) -> None:
    running = await stick(orders, group, *MANY)
    await orders.done([running])
    await orders.finish(group)
    await orders.publish("next", "last", key="a")
    assert await orders.claim_ids(group) == ["next"]


async def test_what_was_passed_over_is_kept_for_the_group(orders: Orders, group: Stream) -> None:
    await orders.declare_topic(max_length=0)
    running = await stick(orders, group, *MANY)
    await orders.publish("b1", key="b")
    assert await orders.claim_ids(group) == ["b1"]
    tended = await orders.keep_topics(group)
    assert tended.holding == (group,)
    assert (await orders.record()).length >= len(MANY) - PARKED_OF_KEY
    await orders.done([running])
    assert await orders.finish(group) == MANY
    assert (await orders.keep_topics(group)).holding == ()
    assert (await orders.record()).length == 0


async def test_what_was_passed_over_and_trimmed_does_not_stop_its_key(orders: Orders, group: Stream) -> None:
    await orders.declare_topic(max_length=10, strict=False)
    running = await stick(orders, group)
    for id in MANY:
        await orders.publish(id, key="a")
        assert await orders.claim(group) == []
    await orders.keep_topics(group)
    left = await orders.ids()
    record = await orders.group_record(group)
    assert record.lag == len(left)
    await orders.done([running])
    assert await orders.finish(group) == [*MANY[:PARKED_OF_KEY], *left]
    record = await orders.group_record(group)
    assert (record.counts.queued, record.lag) == (0, 0)


async def test_room_wakes_a_claim_that_waits(orders: Orders, group: Stream) -> None:
    running = await stick(orders, group, *MANY)
    claiming = await orders.start_claiming(group, by=await orders.stand.other())
    await orders.done([running])
    assert await claimed(claiming) == MANY[:1]


async def test_cancelled_events_of_a_stuck_key_make_room(orders: Orders, group: Stream) -> None:
    running = await stick(orders, group, *MANY)
    for id in MANY[:PARKED_OF_KEY]:
        assert await orders.backend.cancel(group, id, ttl_us=HOUR_US) is CancelAnswer.REMOVED
    assert await orders.claim(group) == []
    await orders.done([running])
    assert await orders.finish(group) == MANY[PARKED_OF_KEY:]


async def test_what_was_passed_over_is_purged_too(orders: Orders, group: Stream) -> None:
    running = await stick(orders, group, *MANY)
    purged = 0
    while count := await orders.backend.purge(group, ttl_us=HOUR_US, limit=50):
        purged += count
    assert purged == len(MANY)
    await orders.done([running])
    await orders.publish("next", key="a")
    assert await orders.finish(group) == ["next"]


async def test_a_group_that_is_ordered_no_more_keeps_the_order_of_what_it_passed_over(
    orders: Orders, group: Stream
) -> None:
    running = await stick(orders, group, *MANY)
    await orders.stand.advance(ORDER_HELD_FOR / 1e6 + 1)
    await orders.join(ordered=False)
    await orders.publish("late", key="a")
    await orders.publish("b1", "b2", key="b")
    assert await orders.claim_ids(group) == ["b1", "b2"]
    await orders.done([running])
    assert await orders.finish(group) == [*MANY, "late"]


async def test_a_group_that_is_removed_forgets_what_it_passed_over(orders: Orders, group: Stream) -> None:
    await stick(orders, group, *MANY)
    await orders.backend.remove_stream(group)
    await orders.join(start=NEW, ordered=True)
    await orders.publish("next", key="a")
    assert await orders.finish(group) == ["next"]


async def test_a_group_that_is_set_to_the_end_skips_what_it_passed_over(
    orders: Orders, group: Stream
) -> None:
    running = await stick(orders, group, *MANY)
    await orders.backend.reset(group, NEW)
    await orders.publish("next", key="a")
    await orders.done([running])
    assert await orders.finish(group) == [*MANY[:PARKED_OF_KEY], "next"]


async def test_a_group_that_is_set_back_draws_what_it_passed_over_once(orders: Orders, group: Stream) -> None:
    running = await stick(orders, group, *MANY)
    await orders.backend.reset(group, BEGINNING)
    await orders.done([running])
    assert await orders.finish(group) == ["a-first", *MANY]


@pytest.mark.whole("each part has its own bound")
async def test_too_many_stuck_keys_stall_a_group_and_it_says_so(orders: Orders, group: Stream) -> None:
    keys = [f"k{number:04}" for number in range(KEYS_DEFERRED_MOST)]
    for round in range(3):
        for start in range(0, len(keys), 500):
            events = [orders.event(f"{key}-{round}", key=key) for key in keys[start : start + 500]]
            await orders.append(*events)
    held: list[Claim] = []
    while claims := await orders.claim(group, 500):
        held += claims
    assert [claim.id for claim in held] == [f"{key}-0" for key in keys]
    await orders.publish("free")
    assert await orders.claim(group) == []
    assert (await orders.keep_topics(group)).stalled == (group,)
    await orders.done(held[:1])
    ids: list[str] = []
    while claims := await orders.claim(group):
        await orders.done(claims)
        ids += [claim.id for claim in claims]
    assert sorted(ids) == ["free", "k0000-1", "k0000-2"]
    assert (await orders.keep_topics(group)).stalled == ()
