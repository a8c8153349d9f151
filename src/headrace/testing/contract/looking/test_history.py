"""The history: what is kept of messages that have ended. A store may lack it."""

from __future__ import annotations

import pytest

from headrace.core.errors import ConfigurationError
from headrace.core.history.entry import HistoryEntry
from headrace.core.history.recording import SCANNED, TRIMMED, Recording, RingLimits
from headrace.core.messages.message import UniqueKey
from headrace.core.messages.outcome import Done, Outcome, Settlement, Verdict
from headrace.core.records.answers import Wanted
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.testing.contract.kit.outcomes import every_outcome
from headrace.testing.contract.kit.stand import WORK, Stand, dead

NO_LIMITS = RingLimits()
DAY_US = 86_400 * SECOND


@pytest.fixture(autouse=True)
def _stores_with_history(stand: Stand) -> None:
    if not isinstance(stand.backend.store, Recording):
        pytest.skip("a history is a capability: it is not Recording")


def entry(
    stand: Stand,
    id: str,
    *,
    after: int = 0,
    task: str = "greet",
    status: str = "succeeded",
    content: bytes = b"\x00\xffcontent",
    ttl: float = 0,
) -> HistoryEntry:
    """An entry that ended so many microseconds after the beginning of this day."""
    ended_us = stand.now_us() // DAY_US * DAY_US + after
    until_us = stand.now_us() + round(ttl * SECOND) if ttl else 0
    return HistoryEntry(id, task, status, ended_us, content, until_us)


async def ids(stand: Stand, status: JobStatus | None = None, task: str | None = None) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await stand.backend.history(WORK, status=status, task=task, cursor=cursor, limit=7)
        found += [each.id for each in page]
        cursor = page.cursor
        if cursor is None:
            return found


async def test_entries_are_listed_with_the_latest_end_first(stand: Stand) -> None:
    entries = [entry(stand, f"job-{number:02}", after=number) for number in range(20)]
    await stand.backend.record_history(WORK, entries[10:], NO_LIMITS)
    await stand.backend.record_history(WORK, entries[:10], NO_LIMITS)
    assert await ids(stand) == [each.id for each in reversed(entries)]
    page = await stand.backend.history(WORK)
    assert list(page) == list(reversed(entries))


async def test_ends_at_the_same_time_are_listed_once_each(stand: Stand) -> None:
    entries = [entry(stand, f"job-{number:02}") for number in range(20)]
    await stand.backend.record_history(WORK, entries, NO_LIMITS)
    assert sorted(await ids(stand)) == [each.id for each in entries]


async def test_entries_are_listed_by_status_and_task(stand: Stand) -> None:
    entries = [
        entry(stand, "a", after=1),
        entry(stand, "b", after=2, status="expired"),
        entry(stand, "c", after=3, task="wave"),
        entry(stand, "d", after=4, status="expired", task="wave"),
    ]
    await stand.backend.record_history(WORK, entries, NO_LIMITS)
    assert await ids(stand, JobStatus.EXPIRED) == ["d", "b"]
    assert await ids(stand, task="wave") == ["d", "c"]
    assert await ids(stand, JobStatus.SUCCEEDED, "wave") == ["c"]
    assert await ids(stand, JobStatus.CANCELLED) == []


async def test_a_rare_entry_is_found_behind_many_others(stand: Stand) -> None:
    rare = entry(stand, "rare", status="expired")
    many = [entry(stand, f"job-{number}", after=number + 1) for number in range(SCANNED + 5)]
    await stand.backend.record_history(WORK, [rare], NO_LIMITS)
    for start in range(0, len(many), 500):
        await stand.backend.record_history(WORK, many[start : start + 500], NO_LIMITS)
    assert await ids(stand, JobStatus.EXPIRED) == ["rare"]


async def test_entries_are_found_by_their_ids(stand: Stand) -> None:
    known = entry(stand, "known")
    await stand.backend.record_history(WORK, [known], NO_LIMITS)
    assert await stand.backend.find_history(WORK, ["other", "known"]) == [None, known]
    assert await stand.backend.find_history(WORK, []) == []
    other = await stand.queue("other")
    assert await stand.backend.find_history(other, ["known"]) == [None]


async def test_a_later_entry_of_an_id_replaces_the_earlier_one(stand: Stand) -> None:
    await stand.backend.record_history(WORK, [entry(stand, "a", content=bytes(1000))], NO_LIMITS)
    again = entry(stand, "a", after=5, status="expired", content=b"again")
    await stand.backend.record_history(WORK, [again, entry(stand, "b", after=1)], NO_LIMITS)
    assert await ids(stand) == ["a", "b"]
    assert await stand.backend.find_history(WORK, ["a"]) == [again]
    assert await ids(stand, JobStatus.SUCCEEDED) == ["b"]
    # Its size counts once.
    await stand.backend.record_history(WORK, [], RingLimits(size=again.size * 3))
    assert await ids(stand) == ["a", "b"]


async def test_an_earlier_end_of_an_id_changes_nothing(stand: Stand) -> None:
    """Each worker writes its entries within a second: a job may be replayed and end meanwhile."""
    latest = entry(stand, "a", after=5)
    await stand.backend.record_history(WORK, [latest, entry(stand, "b", after=6)], NO_LIMITS)
    await stand.backend.record_history(WORK, [entry(stand, "a", after=4, status="expired")], NO_LIMITS)
    assert await stand.backend.find_history(WORK, ["a"]) == [latest]
    assert await ids(stand) == ["b", "a"]
    assert await ids(stand, JobStatus.EXPIRED) == []


async def test_a_dead_letter_that_was_discarded_is_not_recorded_afterwards(stand: Stand) -> None:
    await stand.append(stand.message("kept"), stand.message("discarded"))
    for claim in await stand.claim():
        await stand.die(claim)
    await stand.backend.discard(WORK, ["discarded"])
    late = [entry(stand, id, after=1, status="dead") for id in ("kept", "discarded")]
    await stand.backend.record_history(WORK, late, NO_LIMITS)
    assert await ids(stand) == ["kept"]


async def test_a_forgotten_entry_is_gone(stand: Stand) -> None:
    entries = [entry(stand, "a"), entry(stand, "b", after=1)]
    await stand.backend.record_history(WORK, entries, NO_LIMITS)
    assert await stand.backend.forget_history(WORK, ["a", "other"]) == 1
    assert await stand.backend.find_history(WORK, ["a", "b"]) == [None, entries[1]]
    assert await ids(stand) == ["b"]


async def test_a_repeat_changes_nothing(stand: Stand) -> None:
    entries = [entry(stand, f"job-{number}", after=number) for number in range(3)]
    for _ in range(2):
        await stand.backend.record_history(WORK, entries, RingLimits(3, 10_000))
    assert await ids(stand) == ["job-2", "job-1", "job-0"]


async def test_the_oldest_entries_leave_a_ring(stand: Stand) -> None:
    for number in range(8):
        await stand.backend.record_history(
            WORK, [entry(stand, f"job-{number}", after=number)], RingLimits(entries=3)
        )
    assert await ids(stand) == ["job-7", "job-6", "job-5"]


async def test_a_ring_holds_a_number_of_bytes(stand: Stand) -> None:
    entries = [entry(stand, f"job-{number}", after=number, content=bytes(1000)) for number in range(8)]
    await stand.backend.record_history(WORK, entries, RingLimits(100, 3 * entries[0].size))
    assert await ids(stand) == ["job-7", "job-6", "job-5"]
    large = entry(stand, "large", after=9, content=bytes(5000))
    await stand.backend.record_history(WORK, [large], RingLimits(100, 3 * entries[0].size))
    assert await ids(stand) == []


async def test_a_ring_shrinks_in_bounded_steps(stand: Stand) -> None:
    entries = [entry(stand, f"job-{number}", after=number) for number in range(TRIMMED + 50)]
    await stand.backend.record_history(WORK, entries, NO_LIMITS)
    await stand.backend.record_history(WORK, [], RingLimits(entries=10))
    assert len(await ids(stand)) == 50
    await stand.backend.record_history(WORK, [], RingLimits(entries=10))
    assert len(await ids(stand)) == 10


async def test_entries_are_hidden_and_pruned_when_their_time_has_passed(stand: Stand) -> None:
    short, long = entry(stand, "short", ttl=10), entry(stand, "long", ttl=1000)
    await stand.backend.record_history(WORK, [short, long, entry(stand, "forever")], NO_LIMITS)
    assert sorted(await ids(stand)) == ["forever", "long", "short"]
    await stand.advance(11)
    assert sorted(await ids(stand)) == ["forever", "long"]
    assert (await stand.backend.find_history(WORK, ["short"])) == [None]
    while await stand.backend.prune(limit=10):
        pass
    await stand.backend.record_history(WORK, [], NO_LIMITS)
    assert sorted(await ids(stand)) == ["forever", "long"]


@every_outcome
async def test_a_settlement_writes_its_record(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    record = entry(stand, claim.id, content=bytes(range(256)))
    [verdict] = await stand.backend.settle([Settlement(claim, outcome, record=record)])
    assert verdict is Verdict.KEPT
    assert await stand.backend.find_history(WORK, [claim.id]) == [record]


async def test_a_batch_of_settlements_writes_the_records_that_it_has(stand: Stand) -> None:
    for number in range(6):
        await stand.add(f"job-{number}", unique=UniqueKey("key") if number == 5 else None)
    claims = {claim.id: claim for claim in await stand.claim()}
    settlements = [
        Settlement(claim, dead(claim.state) if id == "job-4" else Done(), record=entry(stand, id))
        if id not in ("job-0", "job-1")
        else Settlement(claim, Done())
        for id, claim in claims.items()
    ]
    assert set(await stand.backend.settle(settlements)) == {Verdict.KEPT}
    assert sorted(await ids(stand)) == ["job-2", "job-3", "job-4", "job-5"]


async def test_a_settlement_that_is_refused_writes_no_record(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    late = Settlement(claim, dead(claim.state), record=entry(stand, claim.id))
    assert await stand.backend.settle([late]) == [Verdict.LOST]
    again = await stand.claim_one(claim.id)
    assert await stand.settle_done(again) is Verdict.KEPT
    done = Settlement(claim, Done(), record=entry(stand, claim.id))
    assert await stand.backend.settle([done]) == [Verdict.GONE]
    assert await ids(stand) == []


async def test_an_id_and_a_key_in_the_history_are_free(stand: Stand) -> None:
    claim = await stand.running("a", unique=UniqueKey("key"))
    await stand.backend.settle([Settlement(claim, Done(), record=entry(stand, "a"))])
    assert await stand.backend.get(WORK, "a") is None
    assert await stand.backend.holders(WORK, [Wanted("a", "key")]) == [None]
    await stand.add("a", unique=UniqueKey("key"))


async def test_a_purge_leaves_the_history(stand: Stand) -> None:
    await stand.backend.record_history(WORK, [entry(stand, "a")], NO_LIMITS)
    await stand.add("b")
    await stand.backend.purge(WORK, ttl_us=0, limit=10)
    assert await ids(stand) == ["a"]


async def test_history_leaves_with_its_queue(stand: Stand) -> None:
    other = await stand.queue("other")
    await stand.backend.record_history(other, [entry(stand, "a")], NO_LIMITS)
    assert await stand.backend.store.remove_stream(other)
    assert (await stand.backend.history(other)).items == ()
    await stand.queue("other")
    assert (await stand.backend.history(other)).items == ()
    await stand.backend.record_history(other, [entry(stand, "b")], RingLimits(1, 1000))
    assert [each.id for each in await stand.backend.history(other)] == ["b"]


async def test_a_cursor_of_another_listing_is_refused(stand: Stand) -> None:
    with pytest.raises(ConfigurationError, match="no cursor"):
        await stand.backend.history(WORK, cursor="nonsense")
