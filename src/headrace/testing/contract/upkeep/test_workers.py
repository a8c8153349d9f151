"""Workers send heartbeats, hear control messages, and leave."""

from __future__ import annotations

import msgspec

from headrace.core.messages.outcome import Verdict
from headrace.core.records.control import CancelNotice, ControlMessage, ControlState, PauseNotice
from headrace.core.records.record import JobStatus, RunningJob
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.heartbeats import beat, leave
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, worker_info
from headrace.testing.waiting import wait_until


async def test_a_worker_that_announced_itself_is_listed(stand: Stand) -> None:
    info = msgspec.structs.replace(
        worker_info(), polled_us=stand.now_us(), running=(RunningJob("job", "mail.send", stand.now_us()),)
    )
    await beat(stand.backend, info)
    assert await stand.backend.workers() == [info]


async def test_other_processes_see_the_worker(stand: Stand) -> None:
    await beat(stand.backend, worker_info())
    assert await (await stand.other()).workers() == [worker_info()]


async def test_the_last_announcement_counts(stand: Stand) -> None:
    await beat(stand.backend, worker_info())
    later = msgspec.structs.replace(worker_info(), concurrency=99)
    await beat(stand.backend, later)
    assert await stand.backend.workers() == [later]


async def test_several_workers_are_listed(stand: Stand) -> None:
    infos = [worker_info(f"worker-{number}") for number in range(3)]
    for info in infos:
        await beat(stand.backend, info)
    listed = await stand.backend.workers()
    assert sorted(info.consumer for info in listed) == [info.consumer for info in infos]


async def test_a_worker_is_remembered_for_a_minute(stand: Stand) -> None:
    await beat(stand.backend, worker_info())
    await stand.advance(55)
    assert await stand.backend.workers() == [worker_info()]
    await stand.advance(10)
    assert await stand.backend.workers() == []


async def test_each_beat_begins_another_minute(stand: Stand) -> None:
    for _ in range(3):
        await beat(stand.backend, worker_info())
        await stand.advance(50)
    assert await stand.backend.workers() == [worker_info()]


async def test_with_no_orders_standing_a_beat_answers_none(stand: Stand) -> None:
    assert await beat(stand.backend, worker_info()) == ControlState(
        leases={stand.stream: microseconds(LEASE)}
    )


async def test_a_worker_that_retired_is_listed_no_longer(stand: Stand) -> None:
    await beat(stand.backend, worker_info("worker-1"))
    await beat(stand.backend, worker_info("worker-2"))
    await leave(stand.backend, "worker-1", stand.stream)
    assert await stand.backend.workers() == [worker_info("worker-2")]


async def test_retiring_twice_or_unknown_is_harmless(stand: Stand) -> None:
    await beat(stand.backend, worker_info())
    for _ in range(2):
        await leave(stand.backend, "worker-1", stand.stream)
    await leave(stand.backend, "nobody", stand.stream)


async def test_what_a_retired_worker_still_holds_is_recovered(stand: Stand) -> None:
    claim = await stand.running()
    await leave(stand.backend, "worker-1", stand.stream)
    assert await stand.status(claim.id) is JobStatus.RUNNING
    await stand.advance(LEASE + 1)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_what_a_retired_worker_still_holds_it_may_settle(stand: Stand) -> None:
    claim = await stand.running()
    await leave(stand.backend, "worker-1", stand.stream)
    assert await stand.settle_done(claim) is Verdict.KEPT


async def test_a_retired_name_may_come_back(stand: Stand) -> None:
    await leave(stand.backend, "worker-1", stand.stream)
    id = await stand.add()
    assert await stand.claim_ids() == [id]


# --- orders -----------------------------------------------------------------------------------------------


async def test_who_stopped_listening_hears_nothing_more(stand: Stand) -> None:
    stopped: list[ControlMessage] = []
    listening: list[ControlMessage] = []
    stop_first = stand.backend.listen(stopped.append)
    stop_second = stand.backend.listen(listening.append)
    stop_first()
    await stand.backend.pause(stand.stream, paused=True)
    await wait_until(lambda: listening == [PauseNotice(stand.stream, True)])
    assert stopped == []
    stop_second()


async def test_stopping_twice_is_harmless(stand: Stand) -> None:
    stop = stand.backend.listen(lambda order: None)
    stop()
    stop()


async def test_what_was_announced_before_is_not_heard(stand: Stand) -> None:
    await stand.backend.pause(stand.stream, paused=True)
    heard: list[ControlMessage] = []
    stop = (await stand.other()).listen(heard.append)
    await stand.backend.pause(stand.stream, paused=False)
    await wait_until(lambda: heard == [PauseNotice(stand.stream, False)])
    stop()


async def test_orders_of_other_processes_are_heard_in_their_order(stand: Stand) -> None:
    claims = [await stand.running() for _ in range(5)]
    other = await stand.other()
    heard: list[ControlMessage] = []
    stop = stand.backend.listen(heard.append)
    for claim in claims:
        await other.cancel(stand.stream, claim.id, ttl_us=HOUR_US)
    await wait_until(lambda: heard == [CancelNotice(stand.stream, claim.id) for claim in claims])
    stop()


async def test_the_cancellation_of_a_waiting_message_tells_no_worker(stand: Stand) -> None:
    heard: list[ControlMessage] = []
    stop = stand.backend.listen(heard.append)
    await stand.backend.cancel(stand.stream, await stand.add(), ttl_us=HOUR_US)
    await stand.backend.pause(stand.stream, paused=True)
    await wait_until(lambda: heard == [PauseNotice(stand.stream, True)])
    stop()
