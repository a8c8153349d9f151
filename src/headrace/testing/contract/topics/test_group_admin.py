"""Steering a group: reset, removal, pause and purge."""

from __future__ import annotations

import pytest

from headrace.core.errors import UnknownEvent
from headrace.core.messages.message import group_stream
from headrace.core.messages.outcome import Done, Verdict
from headrace.core.records.answers import DeadFilter, Renewal
from headrace.core.records.control import ControlMessage, LeaseNotice
from headrace.core.records.record import Counts, JobStatus, WorkerInfo
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.topics.topic import BEGINNING, NEW, Start
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, retry, worker_info
from headrace.testing.contract.kit.waits import claimed
from headrace.testing.waiting import wait_until

# --- reset ------------------------------------------------------------------------------------------------


async def test_a_group_that_is_set_back_gets_everything_again(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    await orders.finish(group)
    assert await orders.backend.reset(group, BEGINNING)
    assert await orders.claim_ids(group) == ["a", "b"]


@pytest.mark.whole("for the other parts an event is a time, and these are of the same moment")
async def test_a_group_may_be_set_back_to_an_event(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b", "c")
    await orders.finish(group)
    await orders.backend.reset(group, Start("event", event="b"))
    assert await orders.claim_ids(group) == ["b", "c"]


async def test_a_group_may_be_set_back_to_a_time(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.stand.advance(10)
    await orders.publish("b")
    await orders.finish(group)
    await orders.backend.reset(group, Start("time", time_us=orders.stand.now_us() - 5 * SECOND))
    assert await orders.claim_ids(group) == ["b"]


async def test_a_group_may_be_set_forward(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    assert await orders.backend.reset(group, NEW)
    assert (await orders.backend.counts(group)).queued == 0
    await orders.publish("c")
    assert await orders.claim_ids(group) == ["c"]


async def test_a_reset_concerns_no_other_group(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    await orders.finish(billing)
    await orders.finish(mail)
    await orders.backend.reset(billing, BEGINNING)
    assert await orders.claim(mail) == []


@pytest.mark.whole("parts have no order among each other")
async def test_what_a_group_has_is_passed_over_after_a_reset(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("running", "retrying", "dead", "done")
    claims = await orders.claim(group)
    await orders.stand.retry(claims[1])
    await orders.stand.die(claims[2])
    await orders.done([claims[3]])
    await orders.backend.reset(group, BEGINNING)
    assert await orders.claim_ids(group) == ["done"]
    assert await orders.status(group, "running") is JobStatus.RUNNING
    assert await orders.status(group, "retrying") is JobStatus.RETRYING
    assert await orders.status(group, "dead") is JobStatus.DEAD


async def test_what_runs_in_an_ordered_group_comes_again_in_its_turn_after_a_reset(orders: Orders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("a1", "a2", "a3", key="a")
    running = await orders.claim_one(group, "a1")
    await orders.claim(group)
    await orders.backend.reset(group, BEGINNING)
    assert await orders.claim(group) == []
    await orders.done([running])
    assert await orders.finish(group) == ["a1", "a2", "a3"]


async def test_a_claim_from_before_a_reset_still_holds(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    claim = await orders.claim_one(group)
    await orders.backend.reset(group, NEW)
    assert await orders.stand.renew(claim) == [Renewal.KEPT]
    assert await orders.stand.settle(claim, Done()) is Verdict.KEPT


async def test_an_event_that_comes_round_again_after_it_left_an_end_record_is_handed_out(
    orders: Orders,
) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.stand.settle_done(await orders.claim_one(group), value=b"1")
    await orders.backend.reset(group, BEGINNING)
    claim = await orders.claim_one(group, "a")
    assert await orders.status(group, "a") is JobStatus.RUNNING
    await orders.stand.settle_done(claim, value=b"2")
    assert (await orders.stand.look("a", source=group)).result == b"2"


async def test_end_records_of_events_that_came_round_again_are_listed_once_each(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    for claim in await orders.claim(group):
        await orders.stand.settle_done(claim, value=b"1")
    await orders.backend.reset(group, BEGINNING)
    for claim in reversed(await orders.claim(group)):
        await orders.stand.settle_done(claim, value=b"2")
    found: list[str] = []
    page = await orders.backend.messages(group, status=JobStatus.SUCCEEDED, limit=1)
    while page.cursor:
        found += [record.id for record in page]
        page = await orders.backend.messages(group, status=JobStatus.SUCCEEDED, limit=1, cursor=page.cursor)
    assert sorted(found + [record.id for record in page]) == ["a", "b"]


async def test_a_late_claim_from_before_a_reset_cannot_end_the_new_round(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    before = await orders.claim_one(group)
    await orders.done([before])
    await orders.backend.reset(group, BEGINNING)
    await orders.claim_one(group, "a")
    assert await orders.stand.settle(before, Done()) is Verdict.GONE
    assert await orders.stand.settle(before, retry()) is Verdict.LOST
    assert await orders.status(group, "a") is JobStatus.RUNNING


async def test_a_group_that_does_not_exist_is_not_reset(orders: Orders) -> None:
    await orders.publish("a")
    assert not await orders.backend.reset(group_stream("orders", "nobody"), BEGINNING)
    assert (await orders.record()).groups == ()


async def test_a_group_is_not_reset_to_an_event_that_is_not_there(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    with pytest.raises(UnknownEvent, match="nobody"):
        await orders.backend.reset(group, Start("event", event="nobody"))
    assert await orders.claim_ids(group) == ["a"]


# --- remove -----------------------------------------------------------------------------------------------


async def test_a_removed_group_is_forgotten_with_all_it_had(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("running", "retrying", "dead", "waiting")
    claims = await orders.claim(group, 3)
    await orders.stand.retry(claims[1])
    await orders.stand.die(claims[2])
    assert await orders.backend.remove_stream(group)
    assert (await orders.record()).groups == ()
    assert group not in await orders.backend.streams()
    assert await orders.backend.counts(group) == Counts()
    assert list(await orders.backend.dead_letters(group, only=DeadFilter())) == []
    assert [await orders.status(group, claim.id) for claim in claims] == [JobStatus.UNKNOWN] * 3


async def test_a_removed_group_leaves_the_log_and_the_others_alone(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    await orders.claim(mail)
    await orders.backend.remove_stream(billing)
    assert await orders.ids() == ["a"]
    assert await orders.status(mail, "a") is JobStatus.RUNNING


async def test_a_claim_for_a_removed_group_gets_nothing(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.backend.remove_stream(group)
    await orders.publish("b")
    assert await orders.claim(group) == []
    assert await orders.claim(group, by=await orders.stand.other()) == []
    await orders.keep_topics(group)
    assert await orders.claim(group) == []
    assert (await orders.record()).groups == ()


async def test_what_was_claimed_for_a_removed_group_is_lost(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    first, second = await orders.claim(group)
    await orders.backend.remove_stream(group)
    assert await orders.stand.renew(first) == [Renewal.LOST]
    assert await orders.stand.settle(first, Done()) is Verdict.GONE
    assert await orders.stand.settle(second, retry()) is Verdict.LOST
    await orders.lose(group)
    assert await orders.backend.counts(group) == Counts()


@pytest.mark.whole("parts have no order among each other")
async def test_a_removed_group_can_be_joined_anew(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b")
    before = await orders.claim_one(group, "a")
    await orders.backend.remove_stream(group)
    assert await orders.backend.join(group, BEGINNING)
    assert await orders.claim_ids(group) == ["a", "b"]
    assert await orders.stand.settle(before, retry()) is Verdict.LOST
    assert await orders.status(group, "a") is JobStatus.RUNNING


async def test_a_claim_that_waits_for_a_removed_group_goes_on_when_it_is_joined_again(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.backend.remove_stream(group)
    claiming = await orders.start_claiming(group)
    other = await orders.stand.other()
    assert await other.join(group, BEGINNING)
    assert await claimed(claiming) == ["a"]


async def test_a_group_that_is_removed_under_a_waiting_claim_gets_on_too(orders: Orders) -> None:
    group = await orders.join()
    claiming = await orders.start_claiming(group)
    await orders.backend.remove_stream(group)
    await orders.backend.join(group, NEW)
    await orders.publish("a")
    assert await claimed(claiming) == ["a"]


async def test_a_group_joined_anew_remembers_no_order(orders: Orders) -> None:
    group = await orders.join(ordered=True)
    await orders.publish("a1", "a2", key="a")
    await orders.claim(group)
    await orders.backend.remove_stream(group)
    await orders.join(ordered=True)
    assert await orders.finish(group) == ["a1", "a2"]


async def test_a_group_that_does_not_exist_is_not_removed(orders: Orders) -> None:
    assert not await orders.backend.remove_stream(group_stream("orders", "nobody"))
    group = await orders.join()
    assert await orders.backend.remove_stream(group)
    assert not await orders.backend.remove_stream(group)


# --- pause, leases, workers -------------------------------------------------------------------------------


async def test_nothing_is_handed_out_from_a_paused_group(orders: Orders) -> None:
    billing, mail = await orders.join("billing"), await orders.join("mail")
    await orders.publish("a")
    await orders.backend.pause(billing, paused=True)
    assert await orders.claim(billing) == []
    assert await orders.claim_ids(mail) == ["a"]
    assert (await orders.backend.counts(billing)).paused
    await orders.backend.pause(billing, paused=False)
    assert await orders.claim_ids(billing) == ["a"]


async def test_a_group_has_a_lease_of_its_own(orders: Orders) -> None:
    group = await orders.join()
    heard: list[ControlMessage] = []
    stop = orders.backend.listen(heard.append)
    assert await orders.backend.declare_stream(group, microseconds(LEASE)) is None
    assert await orders.backend.declare_stream(group, microseconds(100)) == microseconds(LEASE)
    await wait_until(lambda: LeaseNotice(group, microseconds(100)) in heard)
    stop()
    await orders.publish("a")
    await orders.claim(group)
    await orders.stand.advance(LEASE + 1)
    assert await orders.stand.reclaim(sources=[group]) == []


async def test_a_worker_hears_the_control_state_of_its_groups(orders: Orders) -> None:
    group = await orders.join()
    await orders.backend.pause(group, paused=True)
    worker = WorkerInfo(
        "worker-1", "host", 42, 1, queues=("work",), concurrency=10, groups=("orders/billing",)
    )
    readers = {"worker-1": [orders.stand.stream], "worker-1/billing": [group]}
    control = await orders.backend.heartbeat(worker, readers)
    assert group in control.paused
    assert control.leases[group] == microseconds(LEASE)
    assert control.leases[orders.stand.stream] == microseconds(LEASE)
    assert await orders.backend.workers() == [worker]


async def test_a_worker_that_leaves_loses_nothing_that_it_holds(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    await orders.claim(group, consumer="worker-1/billing")
    readers = {"worker-1": [orders.stand.stream], "worker-1/billing": [group]}
    await orders.backend.heartbeat(worker_info("worker-1"), readers, leaving=True)
    assert [recovery.id for recovery in await orders.lose(group)] == ["a"]
    assert await orders.claim_ids(group) == ["a"]


@pytest.mark.whole("parts have no order among each other")
async def test_a_purged_group_has_nothing_left_to_do(orders: Orders) -> None:
    billing, mail = await orders.join("billing", ordered=True), await orders.join("mail")
    await orders.publish_keys(a1="a", a2="a", b="b", x="")
    await orders.stand.retry(await orders.claim_one(billing, "a1"))
    running = await orders.claim_one(billing, "b")
    while await orders.backend.purge(billing, ttl_us=HOUR_US, limit=2):
        pass
    counts = await orders.backend.counts(billing)
    assert (counts.queued, counts.retrying, counts.running) == (0, 0, 1)
    await orders.done([running])
    assert await orders.claim(billing) == []
    assert await orders.claim_ids(mail) == ["a1", "a2", "b", "x"]
