"""The lease belongs to the stream: a change holds for all workers, and no holder loses its message by it."""

from __future__ import annotations

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlMessage, LeaseNotice, PauseNotice
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.heartbeats import beat
from headrace.testing.contract.kit.stand import LEASE, Stand, worker_info
from headrace.testing.waiting import wait_until

SHORT = LEASE / 10


async def shorten(stand: Stand, seconds: float = SHORT) -> int | None:
    return await (await stand.other()).declare_stream(stand.source, microseconds(seconds))


async def test_another_lease_is_announced_to_all_once(stand: Stand) -> None:
    other = await stand.other()
    heard: list[ControlMessage] = []
    elsewhere: list[ControlMessage] = []
    stops = [stand.backend.listen(heard.append), other.listen(elsewhere.append)]
    assert await other.declare_stream(stand.source, microseconds(SHORT)) == microseconds(LEASE)
    assert await other.declare_stream(stand.source, microseconds(SHORT)) is None
    await other.pause(stand.stream, paused=True)
    expected = [LeaseNotice(stand.stream, microseconds(SHORT)), PauseNotice(stand.stream, True)]
    await wait_until(lambda: heard == elsewhere == expected)
    for stop in stops:
        stop()


async def test_the_first_lease_of_a_stream_is_no_change(stand: Stand) -> None:
    heard: list[ControlMessage] = []
    stop = stand.backend.listen(heard.append)
    source = await stand.queue("second")
    await stand.backend.pause(source, paused=True)
    await wait_until(lambda: heard == [PauseNotice(source, True)])
    stop()


async def test_a_beat_answers_the_leases_of_the_workers_queues(stand: Stand) -> None:
    await stand.queue("not the worker's")
    control = await beat(stand.backend, worker_info())
    assert control.leases == {stand.stream: microseconds(LEASE)}
    await shorten(stand)
    control = await beat(stand.backend, worker_info())
    assert control.leases == {stand.stream: microseconds(SHORT)}


async def test_a_queue_that_was_not_declared_has_no_lease_to_answer(stand: Stand) -> None:
    await stand.add(source=Stream("queue", "appended"))
    info = msgspec.structs.replace(worker_info(), queues=("appended", "nobody's"))
    assert (await beat(stand.backend, info)).leases == {}


async def test_a_shortened_lease_robs_nobody_who_holds_by_the_longer_one(stand: Stand) -> None:
    claim = await stand.running()
    await stand.advance(LEASE * 0.5)
    await shorten(stand)
    assert await stand.reclaim() == []
    await stand.advance(LEASE * 0.4)
    assert await stand.reclaim() == []
    await stand.renew(claim)
    await stand.advance(LEASE * 0.7)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_who_does_not_renew_is_recovered_by_the_longer_lease_meanwhile(stand: Stand) -> None:
    claim = await stand.running()
    await stand.advance(LEASE * 0.5)
    await shorten(stand)
    await stand.advance(LEASE * 0.5 + 1)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_after_a_while_the_shorter_lease_holds_alone(stand: Stand) -> None:
    await shorten(stand)
    await stand.advance(LEASE + 1)
    claim = await stand.running()
    await stand.advance(SHORT + 1)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_shortened_twice_the_longest_holds_to_its_end(stand: Stand) -> None:
    claim = await stand.running()
    await shorten(stand, SHORT)
    await shorten(stand, SHORT / 2)
    await stand.advance(LEASE - 5)
    assert await stand.reclaim() == []
    await stand.advance(6)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_a_lengthened_lease_holds_at_once(stand: Stand) -> None:
    claim = await stand.running()
    await shorten(stand, LEASE * 2)
    await stand.advance(LEASE * 1.5)
    assert await stand.reclaim() == []
    await stand.advance(LEASE)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_to_and_fro_the_longest_granted_lease_holds(stand: Stand) -> None:
    claim = await stand.running()
    await shorten(stand, SHORT)
    await shorten(stand, SHORT * 2)
    await stand.advance(LEASE - 5)
    assert await stand.reclaim() == []
    await stand.advance(6)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]
