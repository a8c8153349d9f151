"""Publishing to a topic whose parts change, and the groups that join it: nothing is missed or comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.core.clock import microseconds
from headrace.core.errors import UnknownEvent
from headrace.core.message import Source, Stream, UniqueKey, group_stream
from headrace.core.outcome import Retry, Verdict
from headrace.core.topics import BEGINNING, NEW, Start, TopicRules
from tests.unit.backends.split_orders import TOPIC, SplitOrders, ids_of


@pytest.fixture
def orders() -> SplitOrders:
    return SplitOrders()


# --- publishing -------------------------------------------------------------------------------------------


async def test_events_spread_over_the_parts_and_those_of_a_key_stay_together(orders: SplitOrders) -> None:
    await orders.split(4)
    await orders.publish(*ids_of(40))
    await orders.publish("k1", "k2", "k3", key="customer-7")
    entries = (await orders.read()).entries
    assert len({entry.part for entry in entries}) == 4
    assert len({entry.part for entry in entries if entry.key}) == 1


async def test_a_publisher_that_knows_the_old_parts_publishes_to_the_new_ones(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.publish("before", by=1)
    await orders.split(3)
    answers = await orders.publish(*ids_of(20), by=1)
    assert [answer.id for answer in answers] == ids_of(20)
    assert sorted(await orders.finish(group)) == ["before", *ids_of(20)]


async def test_an_idempotency_key_holds_over_a_change(orders: SplitOrders) -> None:
    once = UniqueKey("order-4711", "elapsed", microseconds(60))
    await orders.publish("first", unique=once)
    for parts in (3, 2):
        await orders.split(parts)
        [answer] = await orders.publish(f"again-{parts}", unique=once, by=1)
        assert (answer.verdict, answer.id) == ("duplicate", "first")
    assert await orders.read_all() == ["first"]


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("ordered", [False, True])
async def test_a_change_that_stopped_half_way_is_finished_by_whoever_publishes(
    orders: SplitOrders, steps: int, ordered: bool
) -> None:
    group = await orders.join(ordered=ordered, by=1)
    await orders.split(2)
    await orders.publish("a1", key="a", by=1)
    store, coming = orders.backend.inner, [Stream("topic", f"orders#2.{index}") for index in range(3)]
    joining = group_stream(coming[1].name, "billing")
    done: list[Callable[[], Awaitable[object]]] = [
        lambda: store.propose(TOPIC, 3),
        lambda: store.seal(Stream("topic", "orders#1.0")),
        lambda: store.seal(Stream("topic", "orders#1.1")),
        lambda: store.arrange(coming[0], TopicRules()),
        lambda: store.join(joining, BEGINNING, ordered=ordered),
    ]
    for step in done[:steps]:
        await step()  # and after the last of them, whoever changes it dies
    await orders.publish("a2", "a3", key="a", by=1)
    await orders.publish(*ids_of(9), by=0)
    await orders.refresh()
    finished = await orders.finish(group, by=1)
    assert [id for id in finished if id.startswith("a")] == ["a1", "a2", "a3"]
    assert sorted(finished) == ["a1", "a2", "a3", *ids_of(9)]
    assert (await orders.backend.layout(TOPIC)).current.parts == (3 if steps > 1 else 2)
    assert await orders.finish(await orders.join("other")) != []


async def test_what_is_sealed_is_trimmed_in_a_topic_without_groups(orders: SplitOrders) -> None:
    """Nobody appends to these parts, which would trim them, and no group has them tended."""
    await orders.backend.arrange(TOPIC, TopicRules(microseconds(60)))
    await orders.publish("whole")
    await orders.split(3)
    await orders.publish(*ids_of(9, "old"))
    await orders.split(2)
    orders.clock.advance(30)
    await orders.publish("young")
    await orders.backend.prune(limit=100)
    assert (await orders.record()).length == 11
    orders.clock.advance(31)
    await orders.publish("new", by=1)
    await orders.processes[1].prune(limit=100)  # it has not done so for a while
    assert await orders.read_all() == ["young", "new"]


# --- joining ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_group_that_was_there_before_misses_nothing(orders: SplitOrders, ordered: bool) -> None:
    group = await orders.join(start=NEW, ordered=ordered)
    await orders.publish(*ids_of(5, "a"))
    await orders.split(3, by=1)
    await orders.publish(*ids_of(20, "b"), by=1)
    await orders.split(2, by=1)
    await orders.publish(*ids_of(20, "c"))
    await orders.refresh()
    assert sorted(await orders.finish(group)) == [*ids_of(5, "a"), *ids_of(20, "b"), *ids_of(20, "c")]


async def test_a_group_that_begins_with_what_is_new_gets_nothing_from_before(orders: SplitOrders) -> None:
    await orders.publish("old", by=1)
    await orders.split(3)
    await orders.publish(*ids_of(10, "a"))
    group = await orders.join(start=NEW, by=1)  # by a process that has not heard of the parts
    assert await orders.claim(group, by=1) == []
    await orders.publish(*ids_of(10, "b"))
    assert sorted(await orders.finish(group, by=1)) == ids_of(10, "b")


async def test_a_group_that_begins_at_the_beginning_gets_what_all_generations_have(
    orders: SplitOrders,
) -> None:
    await orders.publish("a")
    await orders.split(3)
    await orders.publish(*ids_of(10, "b"))
    await orders.split(1)
    await orders.publish("c")
    group = await orders.join()
    assert sorted(await orders.finish(group)) == ["a", *ids_of(10, "b"), "c"]


async def test_a_group_may_begin_with_an_event_of_any_generation(orders: SplitOrders) -> None:
    published: list[str] = []
    for parts in (None, 3, 2):
        if parts:
            await orders.split(parts)
        for id in ids_of(6, f"{parts}-"):
            await orders.publish(id)
            orders.clock.advance(1)
            published.append(id)
    for place in (0, 3, 7, 14):
        start = Start("event", event=published[place])
        group = await orders.join(f"from-{place}", start)
        assert sorted(await orders.finish(group)) == sorted(published[place:])


async def test_nobody_begins_with_an_event_that_no_part_has(orders: SplitOrders) -> None:
    await orders.split(3)
    await orders.publish("a")
    with pytest.raises(UnknownEvent, match="nobody"):
        await orders.join(start=Start("event", event="nobody"))
    assert (await orders.record()).groups == ()
    with pytest.raises(UnknownEvent, match="nobody"):
        await orders.read(Start("event", event="nobody"))


async def test_a_group_that_joins_again_keeps_its_positions(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.publish(*ids_of(5, "a"))
    await orders.finish(group)
    await orders.split(3)
    await orders.publish(*ids_of(9, "b"))
    assert not await orders.processes[1].join(group, NEW)
    assert sorted(await orders.finish(group, by=1)) == ids_of(9, "b")


async def test_a_join_that_was_broken_off_is_made_good(orders: SplitOrders) -> None:
    """Whoever joined died after the first part. The group begins where it was told to, in the others too."""
    await orders.split(3)
    await orders.publish(*ids_of(12, "old"))
    await orders.backend.inner.join(group_stream("orders#1.2", "billing"), NEW)
    group = await orders.join(start=NEW)
    await orders.publish(*ids_of(12, "new"))
    assert sorted(await orders.finish(group)) == ids_of(12, "new")


async def _joined_during_the_change(orders: SplitOrders) -> Stream:
    """A group that came when the new parts had been prepared and nobody knew of them yet."""
    await orders.split(3)
    group = group_stream("orders", "billing")
    await orders.backend.inner.join(group, NEW, ordered=True)
    return group


async def test_a_group_that_joins_during_a_change_follows_its_topic(orders: SplitOrders) -> None:
    group = await _joined_during_the_change(orders)
    await orders.publish("a1", "a2", key="a")
    claims = await orders.claim(group, by=1)
    assert [claim.id for claim in claims] == ["a1"]
    await orders.done(claims, by=1)
    assert await orders.finish(group) == ["a2"]


async def test_a_group_that_joined_during_a_change_and_joins_again_misses_nothing(
    orders: SplitOrders,
) -> None:
    group = await _joined_during_the_change(orders)
    await orders.publish(*ids_of(9))
    assert not await orders.backend.join(group, NEW)
    assert sorted(await orders.finish(group)) == ids_of(9)


async def test_a_group_that_joined_during_a_change_can_be_removed_for_good(orders: SplitOrders) -> None:
    group = await _joined_during_the_change(orders)
    await orders.publish(*ids_of(9))
    assert await orders.backend.remove(group)
    assert await orders.claim(group, by=1) == []
    assert (await orders.record()).groups == ()


async def test_a_group_that_joined_during_a_change_can_be_set_back_everywhere(orders: SplitOrders) -> None:
    group = await _joined_during_the_change(orders)
    await orders.publish(*ids_of(9))
    assert await orders.backend.reset(group, NEW)
    assert await orders.claim(group, by=1) == []


async def test_several_that_join_at_once_make_one_group(orders: SplitOrders) -> None:
    await orders.split(3)
    group = group_stream("orders", "billing")
    answers = await asyncio.gather(*(process.join(group, NEW) for process in orders.processes * 2))
    assert sorted(answers) == [False, False, False, True]


async def test_what_a_group_has_not_drawn_is_kept_for_it_from_the_first_event_on(orders: SplitOrders) -> None:
    """Also when none of its members has heard of the change yet."""
    group = await orders.join(by=1)
    await orders.backend.arrange(TOPIC, TopicRules(microseconds(60)))
    await orders.split(3)
    await orders.publish(*ids_of(12))
    orders.clock.advance(100)
    await orders.publish(*ids_of(12, "later"))  # an append trims what may go
    await orders.refresh()
    assert sorted(await orders.finish(group, by=1)) == [*ids_of(12), *ids_of(12, "later")]


async def test_a_removed_group_is_not_brought_back_by_a_change(orders: SplitOrders) -> None:
    group = await orders.join(by=1)
    assert await orders.backend.remove(group)
    await orders.split(3)
    await orders.publish(*ids_of(9))
    await orders.refresh()
    assert await orders.claim(group, by=1) == []
    await orders.processes[1].tend([group], limit=100)
    assert await orders.claim(group, by=1) == []
    assert (await orders.record()).groups == ()
    assert group not in await orders.backend.streams()
    assert await orders.backend.join(group, BEGINNING)
    assert sorted(await orders.finish(group, by=1)) == ids_of(9)


async def test_a_group_that_is_removed_during_a_change_is_not_in_the_new_parts(orders: SplitOrders) -> None:
    """Whoever changed it died when the new parts had been prepared."""
    group = await orders.join(by=1)
    store = orders.backend.inner
    await store.propose(TOPIC, 2)
    await store.seal(TOPIC)
    for index in range(2):
        await store.join(group_stream(f"orders#1.{index}", "billing"), BEGINNING)
    assert await orders.backend.remove(group)
    await orders.publish(*ids_of(9))
    await orders.refresh()
    assert (await orders.backend.layout(TOPIC)).current.parts == 2
    assert (await orders.record()).groups == ()
    assert await orders.claim(group, by=1) == []


async def test_a_group_that_is_removed_is_gone_from_every_part(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.split(3)
    await orders.publish(*ids_of(12))
    [claim, *_] = await orders.claim(group)
    assert await orders.backend.remove(group)
    assert not await orders.backend.remove(group)
    assert await orders.settle(claim, Retry(claim.state, 0)) is Verdict.LOST
    assert await orders.claim(group) == await orders.claim(group, by=1) == []
    assert (await orders.record()).groups == ()


async def test_a_group_keeps_its_lease_and_its_pause_in_new_parts(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.backend.pause(group, paused=True)
    await orders.split(3)
    await orders.publish(*ids_of(12))
    assert await orders.claim(group) == []
    assert (await orders.group_record(group)).counts.paused
    await orders.backend.pause(group, paused=False)
    assert len(await orders.claim(group)) == 12
    orders.clock.advance(29)
    assert (await orders.backend.reclaim([Source(group)], limit=100)).recovered == ()
    orders.clock.advance(2)
    recovered = (await orders.backend.reclaim([Source(group)], limit=100)).recovered
    assert {each.source.stream for each in recovered} == {group}
    assert len(recovered) == 12
