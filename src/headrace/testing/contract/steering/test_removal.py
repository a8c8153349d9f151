"""Removing a stream: a queue or topic must be empty. `test_group_admin.py` has the removal of groups."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule_record import establish, remove
from headrace.core.topics.topic import BEGINNING, TopicRules
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.stand import HOUR_US, Stand
from headrace.testing.contract.unique_keys.kinds import ELAPSED

pytestmark = pytest.mark.whole("parts are removed by the store's own rules")

TOPIC = Stream("topic", "orders")


async def is_there(stand: Stand, stream: Stream) -> bool:
    return stream in await (await stand.other()).streams()


async def test_an_empty_queue_is_removed(stand: Stand) -> None:
    await stand.settle_done(await stand.running())
    assert await is_there(stand, stand.stream)
    assert await stand.backend.remove_stream(stand.stream)
    assert not await is_there(stand, stand.stream)
    assert not await stand.backend.remove_stream(stand.stream)


async def test_an_unknown_stream_is_not_removed(stand: Stand) -> None:
    for stream in (
        Stream("queue", "nowhere"),
        Stream("topic", "nowhere"),
        Stream("group", "nowhere/billing"),
    ):
        assert not await stand.backend.remove_stream(stream)
        assert not await is_there(stand, stream)


@pytest.mark.parametrize("how", ["queued", "suspended", "running", "retrying", "dead", "child"])
async def test_a_queue_with_a_message_stays(stand: Stand, how: str) -> None:
    if how in ("queued", "suspended", "child"):
        id = await stand.add(delay=60 if how == "suspended" else 0, child=how == "child")
    else:
        claim = await stand.running()
        id = claim.id
        if how == "retrying":
            await stand.retry(claim, delay=60)
        if how == "dead":
            await stand.die(claim)
    assert not await stand.backend.remove_stream(stand.stream)
    assert await is_there(stand, stand.stream)
    assert await stand.backend.get(stand.stream, id) is not None


async def test_a_queue_with_a_schedule_stays(stand: Stand) -> None:
    [added] = await stand.backend.swap_schedules([establish(stand.stream, "nightly")])
    assert added.record is not None
    assert not await stand.backend.remove_stream(stand.stream)
    assert (await stand.backend.schedules([stand.stream])).records == (added.record,)
    await stand.backend.swap_schedules([remove(added.record)])
    assert await stand.backend.remove_stream(stand.stream)


async def test_a_removed_queue_may_be_used_again(stand: Stand) -> None:
    assert await stand.backend.remove_stream(stand.stream)
    await stand.backend.declare_stream(stand.source, 30 * SECOND)
    id = await stand.add()
    assert await stand.claim_ids() == [id]


async def test_a_removed_queue_is_not_paused_any_more(stand: Stand) -> None:
    await stand.backend.pause(stand.stream, paused=True)
    assert await stand.backend.remove_stream(stand.stream)
    assert not (await stand.backend.counts(stand.stream)).paused


async def test_a_removed_queue_knows_no_id_and_holds_no_unique_key(stand: Stand) -> None:
    claim = await stand.running(unique=ELAPSED)
    await stand.settle_done(claim, value=b"42")
    assert await stand.backend.remove_stream(stand.stream)
    await stand.backend.declare_stream(stand.source, 30 * SECOND)
    assert await stand.status(claim.id) is JobStatus.UNKNOWN
    await stand.add(claim.id, unique=ELAPSED)


async def test_a_topic_with_events_or_groups_stays(orders: Orders) -> None:
    backend, event = orders.backend, Message("event", "Placed", b"")
    group = await orders.join()
    assert not await backend.remove_stream(TOPIC)
    await backend.remove_stream(group)
    await backend.append(Batch(TOPIC, "producer", 1, [event]))
    assert not await backend.remove_stream(TOPIC)
    assert await is_there(orders.stand, TOPIC)
    await backend.declare_topic(TOPIC, TopicRules(retention_us=1, strict=False))
    await orders.stand.advance(60)
    while (await backend.keep_topics([TOPIC], limit=100)).more:
        pass
    assert await backend.remove_stream(TOPIC)
    assert not await is_there(orders.stand, TOPIC)
    assert await backend.topics([TOPIC.name]) == []


async def test_a_topic_with_an_event_that_is_due_later_stays(orders: Orders) -> None:
    later = Message("later", "Placed", b"", delay_us=HOUR_US)
    await orders.backend.append(Batch(TOPIC, "producer", 1, [later]))
    assert not await orders.backend.remove_stream(TOPIC)
    await orders.backend.cancel(TOPIC, "later", ttl_us=SECOND)
    assert await orders.backend.remove_stream(TOPIC)


async def test_a_removed_group_is_made_again_only_by_a_join(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a")
    assert await orders.backend.remove_stream(group)
    assert await orders.claim_ids(group) == []
    assert not await is_there(orders.stand, group)
    assert await orders.backend.join(group, BEGINNING)
    assert await is_there(orders.stand, group)
