"""The progress of a running message: only its holder reports it, and it goes when the run ends."""

from __future__ import annotations

import pytest

from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Cancelled, Released
from headrace.core.records.record import JobStatus, Progress
from headrace.core.runtime.clock import SECOND
from headrace.testing.contract.kit.stand import HOUR_US, WORK, Stand, retry


async def told(stand: Stand, id: str, *, source: Stream = WORK) -> tuple[float, str] | None:
    progress = (await stand.look(id, source=source)).progress
    return (progress.fraction, progress.text) if progress else None


async def running_and_told(stand: Stand) -> Claim:
    claim = await stand.running()
    await stand.backend.report_progress([Report(claim, 0.25, "reading")])
    return claim


async def test_what_was_reported_is_shown_with_its_time(stand: Stand) -> None:
    claim = await stand.running()
    assert (await stand.look(claim.id)).progress is None
    await stand.advance(10)
    await stand.backend.report_progress([Report(claim, 0.4, "reading")])
    progress = (await stand.look(claim.id)).progress
    assert progress is not None
    assert (progress.fraction, progress.text) == (0.4, "reading")
    assert abs(progress.at_us - stand.now_us()) < 5 * SECOND


async def test_the_last_report_counts(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.backend.report_progress([Report(claim, 0.5), Report(claim, 0.75, "writing")])
    assert await told(stand, claim.id) == (0.75, "writing")


async def test_no_reports_are_nothing_to_keep(stand: Stand) -> None:
    await stand.backend.report_progress([])


@pytest.mark.parametrize("text", ["", "with spaces  and\nlines", "ünïcödé 🚰", '"quoted"; \\ {x}'])
@pytest.mark.parametrize("fraction", [0.0, 1.0, 1 / 3, 1e-9])
async def test_words_and_numbers_come_back_as_they_were(stand: Stand, text: str, fraction: float) -> None:
    claim = await stand.running()
    await stand.backend.report_progress([Report(claim, fraction, text)])
    assert await told(stand, claim.id) == (fraction, text)


async def test_other_processes_and_listings_show_it(stand: Stand) -> None:
    claim, silent = await running_and_told(stand), await stand.running()
    other = await stand.other()
    seen = await other.get(stand.stream, claim.id)
    assert seen is not None
    assert isinstance(seen.progress, Progress)
    for status in (JobStatus.RUNNING, None):
        page = await other.messages(stand.stream, status=status)
        shown = {record.id: record.progress for record in page}
        assert shown == {claim.id: seen.progress, silent.id: None}


async def test_reports_of_many_messages_of_several_streams_go_together(stand: Stand) -> None:
    sources = [stand.source, await stand.queue("second")]
    for source in sources:
        await stand.append(*[stand.message() for _ in range(250)], source=source)
    claims = await stand.claim(500, sources=sources)
    await stand.backend.report_progress([Report(claim, 0.5, claim.id) for claim in claims])
    for claim in claims[::50]:
        assert await told(stand, claim.id, source=claim.whole) == (0.5, claim.id)


async def test_a_success_ends_it(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.settle_done(claim, value=b"42")
    record = await stand.look(claim.id)
    assert (record.status, record.progress, record.result) == (JobStatus.SUCCEEDED, None, b"42")
    assert await stand.add(claim.id + "x")


async def test_the_id_of_one_that_is_over_begins_without_it(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.settle_done(claim)
    await stand.running(claim.id)
    assert await told(stand, claim.id) is None


async def test_death_ends_it_and_a_replay_begins_without_it(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.die(claim)
    assert await told(stand, claim.id) is None
    await stand.backend.replay(stand.stream, [claim.id])
    await stand.claim_one(claim.id)
    assert await told(stand, claim.id) is None


async def test_a_cancellation_ends_it(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.settle(claim, Cancelled(HOUR_US))
    assert await told(stand, claim.id) is None


async def test_a_retry_ends_it_and_the_next_run_begins_without_it(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.settle(claim, retry(delay=5))
    assert await told(stand, claim.id) is None
    await stand.advance(6)
    await stand.promote()
    again = await stand.claim_one(claim.id)
    assert await told(stand, claim.id) is None
    await stand.backend.report_progress([Report(again, 0.1, "again")])
    assert await told(stand, claim.id) == (0.1, "again")


async def test_a_message_handed_back_begins_without_it(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.settle(claim, Released())
    assert await told(stand, claim.id) is None
    await stand.claim_one(claim.id)
    assert await told(stand, claim.id) is None


async def test_a_recovered_message_begins_without_it(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.lose(claim)
    await stand.claim_one(claim.id, consumer="worker-2")
    assert await told(stand, claim.id) is None


async def test_the_report_of_a_lost_claim_changes_nothing(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    holder = await stand.claim_one(former.id, consumer="worker-2")
    await stand.backend.report_progress([Report(former, 0.9, "former"), Report(holder, 0.1, "holder")])
    assert await told(stand, former.id) == (0.1, "holder")
    await stand.backend.report_progress([Report(former, 0.9, "former")])
    assert await told(stand, former.id) == (0.1, "holder")


async def test_the_report_of_a_settled_claim_leaves_nothing(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle_done(claim)
    await stand.backend.report_progress([Report(claim, 0.9)])
    assert await stand.backend.get(stand.stream, claim.id) is None


async def test_a_renewal_does_not_touch_it(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.renew(claim)
    assert await told(stand, claim.id) == (0.25, "reading")


async def test_a_cancellation_that_was_asked_for_does_not_touch_it(stand: Stand) -> None:
    claim = await running_and_told(stand)
    await stand.backend.cancel(stand.stream, claim.id, ttl_us=HOUR_US)
    await stand.backend.report_progress([Report(claim, 0.5, "still")])
    assert await told(stand, claim.id) == (0.5, "still")
    await stand.settle(claim, Released())
    assert await stand.status(claim.id) is JobStatus.CANCELLED


async def test_what_is_over_is_forgotten_by_pruning_too(stand: Stand) -> None:
    ended, going = await running_and_told(stand), await running_and_told(stand)
    await stand.settle_done(ended)
    await stand.backend.prune(limit=100)
    assert await stand.backend.prune(limit=100) == 0
    assert await told(stand, going.id) == (0.25, "reading")
