"""A store cannot write one of several settlements: it writes the others, and this message is dead."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import Done, Kept, Outcome, Retry, Snoozed, Verdict
from headrace.core.records.record import JobStatus
from headrace.engine.running.finished import FinishedRun
from headrace.testing.contract.kit.settling import Settling
from headrace.testing.contract.kit.stand import HOUR_US, Stand, kept

#: Microseconds that no store on a disk or a server can count. (Python's own memory can.)
WILD_US = 10**19

WILD: dict[str, Outcome] = {
    "a result": Done(Kept(b"42", WILD_US)),
    "a retry": Retry(FRESH, WILD_US),
    "a snooze": Snoozed(FRESH, WILD_US),
}


@pytest.mark.parametrize("outcome", WILD.values(), ids=WILD)
async def test_the_others_are_written_and_it_is_dead(stand: Stand, outcome: Outcome) -> None:
    settling = Settling(stand.backend, end_record_ttl=HOUR_US / 1e6)
    claims = [await stand.running() for _ in range(22)]
    bad = claims.pop(10)
    for claim in [*claims[:10], bad, *claims[10:]]:
        settling.in_flight.write([FinishedRun(claim, outcome if claim is bad else kept(b"42"))])
    settling.settler.start()
    try:
        assert await settling.in_flight.flushed(10)
    finally:
        await settling.settler.stop()
    assert [verdict for _, verdict, _ in settling.written] == [Verdict.KEPT] * 22
    records = [await stand.look(claim.id) for claim in claims]
    assert {(record.status, record.result) for record in records} == {(JobStatus.SUCCEEDED, b"42")}
    record = await stand.look(bad.id)
    if not stand.under_test.any_integer:
        assert (record.status, record.reason) == (JobStatus.DEAD, "refused")
        assert record.failure is not None
        assert "how it ended cannot be stored" in record.failure.error
