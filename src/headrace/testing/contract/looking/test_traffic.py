"""The traffic of each minute: what was done, by the store's clock."""

from __future__ import annotations

from headrace.core.messages.message import Stream, group_stream
from headrace.core.records.traffic import KEPT_MINUTES, TrafficCount
from headrace.testing.contract.kit.stand import Stand

WORK = Stream("queue", "work")
BILLING = group_stream("orders", "billing")


async def test_counts_of_one_minute_add_up(stand: Stand) -> None:
    await stand.backend.count_traffic([TrafficCount(WORK, done=3, failed=1)])
    await stand.backend.count_traffic([TrafficCount(WORK, done=2, dead=1), TrafficCount(BILLING, done=7)])
    records = {record.stream: record for record in await stand.backend.traffic(60)}
    assert (sum(records[WORK].done), sum(records[WORK].failed), sum(records[WORK].dead)) == (5, 1, 1)
    assert sum(records[BILLING].done) == 7
    assert {len(record.done) for record in records.values()} == {60}


async def test_each_minute_has_its_own_count_and_the_latest_is_last(stand: Stand) -> None:
    await stand.backend.count_traffic([TrafficCount(WORK, done=1)])
    await stand.advance(120)
    await stand.backend.count_traffic([TrafficCount(WORK, done=2)])
    [record] = await stand.backend.traffic(10)
    assert record.done[-3:] == (1, 0, 2)


async def test_what_is_older_than_asked_for_is_left_out(stand: Stand) -> None:
    await stand.backend.count_traffic([TrafficCount(WORK, done=1)])
    await stand.advance(60 * 30)
    assert await stand.backend.traffic(10) == []
    assert sum((await stand.backend.traffic(60))[0].done) == 1


async def test_minutes_beyond_what_is_kept_are_forgotten(stand: Stand) -> None:
    await stand.backend.count_traffic([TrafficCount(WORK, done=1)])
    await stand.advance(60 * (KEPT_MINUTES + 1))
    await stand.backend.count_traffic([TrafficCount(WORK, done=2)])
    [record] = await stand.backend.traffic(KEPT_MINUTES)
    assert sum(record.done) == 2
