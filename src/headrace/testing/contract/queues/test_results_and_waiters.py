"""Waiting for the end of a message: the answer comes at once, or when a step ends the message."""

from __future__ import annotations

import asyncio
import time

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import FRESH, Stream
from headrace.core.messages.outcome import (
    Cancelled,
    DeadReason,
    Done,
    Expired,
    Outcome,
    Released,
    Snoozed,
    Verdict,
)
from headrace.core.records.record import JobStatus, Record
from headrace.testing.contract.kit.stand import FAILURE, HOUR_US, Stand, dead, kept, queue_and_group, retry
from headrace.testing.contract.kit.waits import LONG, SOON, soon, started

ENDS: dict[str, tuple[Outcome, JobStatus]] = {
    "done": (Done(), JobStatus.UNKNOWN),
    "done and kept": (kept(b"42"), JobStatus.SUCCEEDED),
    "dead": (dead(), JobStatus.DEAD),
    "cancelled": (Cancelled(HOUR_US), JobStatus.CANCELLED),
    "expired": (Expired(HOUR_US), JobStatus.EXPIRED),
    "cancelled without an end record": (Cancelled(0), JobStatus.UNKNOWN),
}
every_end = pytest.mark.parametrize(("outcome", "status"), ENDS.values(), ids=ENDS)


@queue_and_group
@every_end
async def test_a_message_that_is_over_is_answered_at_once(
    stand: Stand, outcome: Outcome, status: JobStatus
) -> None:
    claim = await stand.running()
    await stand.settle(claim, outcome)
    record = await stand.backend.wait_for_end(stand.stream, claim.id, LONG)
    assert record is not None
    assert (record.stream, record.id, record.status) == (stand.stream, claim.id, status)


@every_end
async def test_a_waiter_is_woken_by_the_settlement(stand: Stand, outcome: Outcome, status: JobStatus) -> None:
    claim = await stand.running()
    waiting = await _start_waiting(stand, claim.id)
    await stand.settle(claim, outcome)
    record = await _end(waiting)
    assert (record.id, record.status) == (claim.id, status)


async def test_a_waiter_gets_the_result(stand: Stand) -> None:
    claim = await stand.running()
    waiting = await _start_waiting(stand, claim.id)
    await stand.settle(claim, kept(b"42"))
    record = await _end(waiting)
    assert record.result == b"42"


async def test_a_waiter_gets_the_error(stand: Stand) -> None:
    claim = await stand.running()
    waiting = await _start_waiting(stand, claim.id)
    await stand.settle(claim, dead())
    record = await _end(waiting)
    assert (record.reason, record.failure) == (DeadReason.EXHAUSTED, FAILURE)


async def test_a_waiter_is_woken_by_another_process(stand: Stand) -> None:
    claim = await stand.running()
    other = await stand.other()
    waiting = await started(other.wait_for_end(stand.stream, claim.id, LONG))
    await stand.settle(claim, kept(b"42"))
    record = await _end(waiting)
    assert record.result == b"42"


async def test_all_waiters_of_a_message_are_woken(stand: Stand) -> None:
    claim = await stand.running()
    other = await stand.other()
    waiting = [await _start_waiting(stand, claim.id) for _ in range(3)]
    waiting.append(await started(other.wait_for_end(stand.stream, claim.id, LONG)))
    for _ in range(3):
        # After a few answers over the same connections, all of them are known to wait.
        assert [await backend.get(stand.stream, claim.id) for backend in (stand.backend, other)]
    await stand.settle(claim, kept(b"42"))
    records = await asyncio.wait_for(asyncio.gather(*waiting), SOON)
    assert [record and record.result for record in records] == [b"42"] * 4


async def test_only_the_waiters_of_that_message_are_woken(stand: Stand) -> None:
    first, second = await stand.running(), await stand.running()
    waiting_first, waiting_second = [await _start_waiting(stand, claim.id) for claim in (first, second)]
    await stand.settle(first, Done())
    await soon(waiting_first)
    assert not waiting_second.done()
    await stand.settle(second, Done())
    await soon(waiting_second)


async def test_an_unknown_message_is_over(stand: Stand) -> None:
    record = await stand.backend.wait_for_end(stand.stream, "nobody", LONG)
    assert record == Record(stand.stream, "nobody", JobStatus.UNKNOWN)


async def test_a_message_of_an_unknown_stream_is_over(stand: Stand) -> None:
    stream = Stream("queue", "nowhere")
    assert await stand.backend.wait_for_end(stream, "nobody", LONG) == Record(
        stream, "nobody", JobStatus.UNKNOWN
    )
    assert await stand.backend.get(stream, "nobody") is None


async def test_a_waiter_gives_up_after_its_time(stand: Stand) -> None:
    id = await stand.add()
    started = time.monotonic()
    assert await stand.backend.wait_for_end(stand.stream, id, 0.1) is None
    assert 0.05 < time.monotonic() - started < SOON
    assert await stand.status(id) is JobStatus.QUEUED


async def test_a_waiter_without_patience_only_looks(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.backend.wait_for_end(stand.stream, claim.id, 0) is None
    await stand.settle(claim, kept(b"42"))
    record = await stand.backend.wait_for_end(stand.stream, claim.id, 0)
    assert record is not None
    assert record.result == b"42"


async def test_a_waiter_may_wait_without_an_end(stand: Stand) -> None:
    claim = await stand.running()
    waiting = await started(stand.backend.wait_for_end(stand.stream, claim.id, None))
    await stand.settle(claim, kept(b"42"))
    record = await _end(waiting)
    assert record.result == b"42"


async def test_a_waiter_that_gave_up_may_wait_again(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.backend.wait_for_end(stand.stream, claim.id, 0.01) is None
    waiting = await _start_waiting(stand, claim.id)
    await stand.settle(claim, Done())
    assert await soon(waiting) is not None


async def test_a_waiter_that_is_cancelled_disturbs_no_other(stand: Stand) -> None:
    claim = await stand.running()
    leaving, staying = [await _start_waiting(stand, claim.id) for _ in range(2)]
    leaving.cancel()
    await asyncio.wait([leaving])
    assert await stand.settle(claim, kept(b"42")) is Verdict.KEPT
    assert await soon(staying) is not None


@pytest.mark.parametrize(
    "outcome",
    [retry(delay=10), Snoozed(FRESH, 1000), Released()],
    ids=["retry", "snoozed", "released"],
)
async def test_a_waiter_waits_on_while_its_message_runs_again(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    waiting = await _start_waiting(stand, claim.id)
    await stand.settle(claim, outcome)
    await stand.advance(11)
    await stand.promote()
    again = await stand.claim_one(claim.id)
    assert not waiting.done()
    await stand.settle(again, kept(b"42"))
    record = await _end(waiting)
    assert record.result == b"42"


async def test_a_waiter_is_woken_when_a_waiting_message_is_cancelled(stand: Stand) -> None:
    id = await stand.add(delay=100)
    waiting = await _start_waiting(stand, id)
    await stand.backend.cancel(stand.stream, id, ttl_us=HOUR_US)
    record = await _end(waiting)
    assert record.status is JobStatus.CANCELLED


async def test_a_waiter_is_woken_when_its_message_dies_of_crashes(stand: Stand) -> None:
    id = await stand.add()
    waiting = await _start_waiting(stand, id)
    for _ in range(3):
        await stand.lose(await stand.claim_one(id))
    record = await _end(waiting)
    assert (record.status, record.reason) == (JobStatus.DEAD, DeadReason.CRASHED)


async def test_a_waiter_is_woken_by_the_late_success_of_a_former_holder(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    waiting = await _start_waiting(stand, claim.id)
    await stand.settle(claim, kept(b"42"))
    record = await _end(waiting)
    assert record.result == b"42"


async def test_a_success_that_is_gone_wakes_no_waiter(stand: Stand) -> None:
    claim = await stand.running()
    await stand.retry(claim, delay=100)
    waiting = await _start_waiting(stand, claim.id)
    assert await stand.settle(claim, kept(b"late")) is Verdict.GONE
    assert await stand.backend.wait_for_end(stand.stream, claim.id, 0.01) is None
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_waiter_is_woken_by_a_purge(stand: Stand) -> None:
    id = await stand.add()
    waiting = await _start_waiting(stand, id)
    await stand.backend.purge(stand.stream, ttl_us=HOUR_US, limit=10)
    record = await _end(waiting)
    assert record.status is JobStatus.CANCELLED


async def test_a_replayed_message_is_waited_for_anew(stand: Stand) -> None:
    claim = await stand.running()
    await stand.die(claim)
    await stand.backend.replay(stand.stream, [claim.id])
    waiting = await _start_waiting(stand, claim.id)
    await stand.settle(await stand.claim_one(claim.id), kept(b"42"))
    record = await _end(waiting)
    assert record.result == b"42"


async def test_a_waiter_is_let_go_when_its_backend_is_closed(stand: Stand) -> None:
    id = await stand.add()
    other = await stand.other()
    waiting = await started(other.wait_for_end(stand.stream, id, LONG))
    for _ in range(10):
        assert await other.get(stand.stream, id)  # after a few answers it is known to wait
    await other.close()
    with pytest.raises(BackendUnavailable):
        await soon(waiting)


@pytest.mark.parametrize("outcome", [kept(b"42"), Cancelled(HOUR_US), Expired(HOUR_US)], ids=type)
async def test_an_end_record_keeps_what_the_message_went_through(stand: Stand, outcome: Outcome) -> None:
    first = await stand.running()
    await stand.retry(first)
    await stand.advance(11)
    await stand.promote()
    second = await stand.claim_one()
    await stand.settle(second, outcome)
    state = (await stand.look(first.id)).state
    assert (state.failures, state.trail) == (1, second.state.trail)


async def _start_waiting(stand: Stand, id: str) -> asyncio.Task[Record | None]:
    return await started(stand.backend.wait_for_end(stand.stream, id, LONG))


async def _end(waiting: asyncio.Task[Record | None]) -> Record:
    record = await soon(waiting)
    assert record is not None
    return record
