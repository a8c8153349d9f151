"""Claiming from a topic whose parts change: leases, order by key, and history that is handled again."""

from __future__ import annotations

import asyncio

import pytest

from headrace.backends.partitioned import Partitioned, group_gate
from headrace.backends.partitioned import topics as partitioned_topics
from headrace.core.backend import Renewal
from headrace.core.clock import SECOND
from headrace.core.errors import BackendUnavailable
from headrace.core.message import FRESH, Source, Stream, group_stream
from headrace.core.outcome import Dead, DeadReason, Failure, Retry, Verdict
from headrace.core.record import Counts
from headrace.core.topics import BEGINNING, NEW, Start
from tests.unit.backends.split_orders import SplitOrders, ids_of

FAILURE = Failure("ValueError", "no such row", "")


@pytest.fixture
def no_pause_between_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests in which nobody else claims while a group is reset."""
    monkeypatch.setattr(partitioned_topics, "SEEN_BY_ALL", 0.0)


@pytest.fixture
def orders() -> SplitOrders:
    return SplitOrders()


# --- claims -----------------------------------------------------------------------------------------------


async def test_a_claim_of_a_part_is_one_of_the_group(orders: SplitOrders) -> None:
    await orders.split(3)
    group = await orders.join()
    await orders.publish("a")
    [claim] = await orders.claim(group)
    assert (claim.source, claim.id) == (Source(group), "a")
    assert orders.backend.renewer().renew([claim]) == [Renewal.KEPT]
    await orders.done([claim])
    assert orders.backend.renewer().renew([claim]) == [Renewal.LOST]


async def test_what_is_under_way_during_a_change_is_settled_after_it(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    first, second = await orders.claim(group)
    await orders.split(3)
    await orders.done([first])
    assert await orders.settle(second, Retry(second.state, 0), by=1) is Verdict.KEPT
    assert await orders.finish(group) == ["b"]


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_claim_that_waits_is_woken_by_an_event_in_any_part(
    orders: SplitOrders, ordered: bool
) -> None:
    await orders.split(3)
    group = await orders.join(ordered=ordered)
    for id in ids_of(6):
        claiming = asyncio.ensure_future(orders.claim(group, wait=50))
        await asyncio.sleep(0)
        await orders.publish(id, by=1)
        claims = await asyncio.wait_for(claiming, 10)
        assert [claim.id for claim in claims] == [id]
        await orders.done(claims)


async def test_a_claim_that_waits_hears_of_new_parts(orders: SplitOrders) -> None:
    group = await orders.join(by=1)
    stop = orders.processes[1].listen(lambda order: None)
    claiming = asyncio.ensure_future(orders.claim(group, by=1, wait=50))
    await asyncio.sleep(0)
    await orders.split(3)
    await orders.publish("a")
    claims = await asyncio.wait_for(claiming, 10) or await orders.claim(group, by=1, wait=10)
    assert [claim.id for claim in claims] == ["a"]
    stop()


async def test_wake_ends_the_wait_of_a_claim_for_an_ordered_group(orders: SplitOrders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("a", key="k")
    await orders.claim(group)
    await orders.split(3)
    claiming = asyncio.ensure_future(orders.claim(group, wait=50, consumer="waiter"))
    await asyncio.sleep(0)
    orders.backend.wake("waiter")
    assert await asyncio.wait_for(claiming, 10) == []


# --- order ------------------------------------------------------------------------------------------------


async def test_a_key_goes_on_in_its_new_part_when_the_old_one_is_done_with(orders: SplitOrders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("a1", "a2", key="a")
    await orders.split(3)
    await orders.publish("a3", "a4", key="a", by=1)
    await orders.publish("b1", key="b")
    for id in ("a1", "a2"):
        claims = await orders.claim(group)
        assert [claim.id for claim in claims] == [id]
        assert await orders.claim(group, by=1) == []
        await orders.done(claims)
    assert sorted(await orders.claim_ids(group)) == ["a3", "b1"]


async def test_a_retry_in_an_old_part_holds_up_the_new_ones(orders: SplitOrders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("a1", key="a")
    [claim] = await orders.claim(group)
    await orders.settle(claim, Retry(claim.state, 10 * SECOND))
    await orders.split(3)
    await orders.publish("a2", key="a")
    assert await orders.claim(group) == []
    orders.clock.advance(11)
    assert await orders.promote(group) == 1
    assert await orders.finish(group) == ["a1", "a2"]


async def test_a_dead_letter_in_an_old_part_holds_up_nothing(orders: SplitOrders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("a1", key="a")
    [claim] = await orders.claim(group)
    await orders.settle(claim, Dead(claim.state, DeadReason.EXHAUSTED, FAILURE))
    await orders.split(3)
    await orders.publish("a2", key="a")
    assert await orders.claim_ids(group) == ["a2"]


async def test_a_group_that_is_not_ordered_waits_for_nothing(orders: SplitOrders) -> None:
    group = await orders.join()
    await orders.publish("a1", key="a")
    [claim] = await orders.claim(group)
    await orders.split(3)
    await orders.publish("a2", key="a")
    assert await orders.claim_ids(group) == ["a2"]
    await orders.done([claim])


async def test_a_claim_that_waits_goes_on_when_another_has_finished_the_old_part(orders: SplitOrders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("a1", key="a")
    claims = await orders.claim(group, by=1)
    await orders.split(3)
    await orders.publish("a2", key="a")
    claiming = asyncio.ensure_future(orders.claim(group, wait=50))
    await asyncio.sleep(0)
    await orders.done(claims, by=1)
    assert [claim.id for claim in await asyncio.wait_for(claiming, 10)] == ["a2"]


async def test_events_of_generations_come_one_generation_after_the_other(orders: SplitOrders) -> None:
    group = await orders.join(ordered=True)
    published: dict[str, list[str]] = {key: [] for key in "abc"}
    for number, parts in enumerate((None, 3, 5, 1, 4)):
        if parts:
            await orders.split(parts, by=number % 2)
        for key, ids in published.items():
            ids += [f"{key}{number}-{each}" for each in range(3)]
            await orders.publish(*ids[-3:], key=key, by=number % 2)
    await orders.refresh()
    finished = await orders.finish(group)
    for key, ids in published.items():
        assert [id for id in finished if id.startswith(key)] == ids


# --- replays ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_pause_between_generations")
@pytest.mark.parametrize("ordered", [False, True])
async def test_a_group_reads_the_history_of_all_generations_again(orders: SplitOrders, ordered: bool) -> None:
    group = await orders.join(ordered=ordered)
    await orders.publish("a1", "a2", key="a")
    await orders.split(3)
    await orders.publish("a3", "a4", key="a")
    await orders.split(2)
    await orders.publish("a5", key="a")
    first = await orders.finish(group)
    assert await orders.backend.reset(group, BEGINNING)
    again = await orders.finish(group)
    assert sorted(first) == sorted(again) == ["a1", "a2", "a3", "a4", "a5"]
    if ordered:
        assert first == again == sorted(again)


@pytest.mark.usefixtures("no_pause_between_generations")
async def test_a_group_may_be_set_back_to_an_event_or_a_time(orders: SplitOrders) -> None:
    group = await orders.join()
    for id in ("a", "b"):
        await orders.publish(id)
        orders.clock.advance(10)
    await orders.split(3)
    for id in ("c", "d"):
        await orders.publish(id)
        orders.clock.advance(10)
    await orders.finish(group)
    assert await orders.backend.reset(group, Start("event", event="b"))
    assert sorted(await orders.finish(group)) == ["b", "c", "d"]
    assert await orders.backend.reset(group, Start("event", event="c"))
    assert sorted(await orders.finish(group)) == ["c", "d"]
    assert await orders.backend.reset(group, Start("time", time_us=orders.clock.now_us() - 25 * SECOND))
    assert sorted(await orders.finish(group)) == ["c", "d"]
    assert await orders.backend.reset(group, NEW)
    assert await orders.finish(group) == []


async def test_a_reset_is_seen_by_all_before_the_next_generation_is_set_back(
    orders: SplitOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has just seen that the old generation is done with, and would take from the new one."""
    monkeypatch.setattr(group_gate, "OPEN_FOR", 0.2)
    monkeypatch.setattr(partitioned_topics, "SEEN_BY_ALL", 0.4)
    group = await orders.join(ordered=True)
    await orders.publish("a1", key="a")
    await orders.split(3)
    await orders.publish("a2", key="a")
    await orders.finish(group)
    assert await orders.claim(group, by=1) == []  # it knows both generations to be open
    resetting = asyncio.ensure_future(orders.backend.reset(group, BEGINNING))
    [claim] = await orders.claim(group, by=1, wait=10)
    assert claim.id == "a1"
    while not resetting.done():
        assert await orders.claim(group, by=1, wait=0.01) == []
    assert await orders.claim(group, by=1) == []
    await orders.done([claim], by=1)
    assert await orders.finish(group, by=1) == ["a2"]
    assert await resetting


async def _done_with_two_generations(orders: SplitOrders) -> Stream:
    """An ordered group that has handled a1 in the old one and a2 in the new one, and is done."""
    group = await orders.join(ordered=True)
    await orders.publish("a1", key="a")
    await orders.split(3)
    await orders.publish("a2", key="a")
    await orders.finish(group)
    return group


class Looks:
    """Counts how often a process looks into the parts of a group; `away` makes the next look fail."""

    def __init__(self, process: Partitioned, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.away = False
        self._counts = process.inner.counts
        monkeypatch.setattr(process.inner, "counts", self._look)

    async def _look(self, stream: Stream) -> Counts:
        self.count += 1
        if self.away:
            self.away = False
            raise BackendUnavailable("it is away")
        return await self._counts(stream)


async def test_while_nothing_comes_nobody_looks_into_the_old_parts(
    orders: SplitOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_gate, "OPEN_FOR", 0.001)
    group = await _done_with_two_generations(orders)
    looks = Looks(orders.backend, monkeypatch)
    for _ in range(3):
        assert await orders.claim(group, wait=0.02) == []
    assert looks.count == 0
    await orders.publish("a3", key="a")
    assert await orders.claim_ids(group) == ["a3"]
    assert looks.count > 0


async def test_a_claim_looks_less_and_less_often_while_the_old_part_is_held_up(
    orders: SplitOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_gate, "CLOSED_FOR", 0.001)
    monkeypatch.setattr(group_gate, "CLOSED_FOR_MOST", 0.1)
    group = await orders.join(ordered=True)
    await orders.publish("a1", key="a")
    held = await orders.claim(group, by=1)
    await orders.split(3)
    await orders.publish("a2", key="a")
    looks = Looks(orders.backend, monkeypatch)
    assert await orders.claim(group, wait=0.3) == []
    assert looks.count <= 15  # it would be 300
    await orders.done(held, by=1)
    assert await orders.claim_ids(group) == ["a2"]


@pytest.mark.usefixtures("no_pause_between_generations")
@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_what_a_claim_brings_too_early_is_handed_back(
    orders: SplitOrders, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Another process has set the group back since this one looked, and all generations have something."""
    monkeypatch.setattr(group_gate, "OPEN_FOR", 0.0)
    group = await _done_with_two_generations(orders)
    assert await orders.claim(group, by=1) == []  # it knows both generations to be open
    await orders.backend.reset(group, BEGINNING)
    claims = await orders.claim(group, limit, by=1)
    assert [claim.id for claim in claims] == ["a1"]
    assert await orders.claim(group, limit, by=1) == []
    await orders.done(claims, by=1)
    [claim] = await orders.claim(group, limit, by=1)
    assert claim.id == "a2"
    assert claim.state == FRESH  # nobody has handled it


@pytest.mark.usefixtures("no_pause_between_generations")
async def test_a_claim_that_waits_at_all_generations_brings_the_old_ones_first(
    orders: SplitOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_gate, "OPEN_FOR", 0.0)
    group = await _done_with_two_generations(orders)
    await orders.claim(group, by=1)
    claiming = asyncio.ensure_future(orders.claim(group, by=1, wait=50))
    await asyncio.sleep(0)
    await orders.backend.reset(group, BEGINNING)
    claims = await asyncio.wait_for(claiming, 10)
    assert [claim.id for claim in claims] == ["a1"]


@pytest.fixture
async def claimed_in_vain(orders: SplitOrders, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A group of which three events were claimed when the store went away: nobody was given them."""
    monkeypatch.setattr(group_gate, "OPEN_FOR", 0.0)
    group = await _done_with_two_generations(orders)
    await orders.publish(*ids_of(3))
    Looks(orders.backend, monkeypatch).away = True
    with pytest.raises(BackendUnavailable):
        await orders.claim(group, consumer="unlucky")
    return group


async def test_what_was_claimed_when_the_store_went_away_is_given_to_the_next_claim(
    orders: SplitOrders, claimed_in_vain: Stream
) -> None:
    group = claimed_in_vain
    assert await orders.claim(group, by=1) == []
    seen = [claim for _ in range(2) for claim in await orders.claim(group, 2, consumer="unlucky")]
    assert sorted(claim.id for claim in seen) == ids_of(3)
    await orders.done(seen)


async def test_what_was_claimed_when_the_store_went_away_is_handed_back_by_one_who_leaves(
    orders: SplitOrders, claimed_in_vain: Stream
) -> None:
    await orders.backend.retire([Source(claimed_in_vain)], "unlucky")
    assert sorted(await orders.claim_ids(claimed_in_vain, by=1)) == ids_of(3)


async def test_a_group_that_no_part_knows_is_not_reset(orders: SplitOrders) -> None:
    await orders.split(3)
    await orders.publish("a")
    assert not await orders.backend.reset(group_stream("orders", "nobody"), BEGINNING)
    assert (await orders.record()).groups == ()
