"""Rows: damaged rows stop no other message, counts agree with the rows, and a claim does not change their
size."""

from __future__ import annotations

import random
from collections.abc import Callable

import apsw
import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH, TrailEntry
from headrace.core.messages.outcome import (
    DONE,
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Failure,
    Kept,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
)
from headrace.core.records.record import JobStatus, WorkerInfo
from headrace.core.runtime.clock import SECOND
from headrace.core.store import CLAIM_BYTES
from headrace.stores.sql.lanes import RANGES
from headrace.stores.sql.rows.record_rows import RecordListing
from headrace.stores.sql.settling import MOST_BYTES, MOST_SETTLEMENTS, parts_of
from headrace.stores.sqlite.threads.transaction import Transaction, resolve
from headrace.stores.sqlite.verbs import looking, steering, upkeep, workers
from headrace.stores.sqlite.verbs.settle import settle
from tests.unit.stores.sqlite.sqlite_file import NAMESPACE, SOURCE, STREAM, SqliteFile, message

FAILED = FRESH.failed(TrailEntry(1, "failed", "worker-1", "oops"))
FAILURE = Failure("ValueError", "oops")


def settle_one(file: SqliteFile, claim: Claim, outcome: Outcome) -> None:
    file.transact(lambda transaction: settle(transaction, [Settlement(claim, outcome)]))


def damage(file: SqliteFile, column: str, id: str) -> None:
    changed = file.connection.change(
        f"UPDATE headrace_messages SET {column} = ? WHERE id = ?", (b"\xff\x00no msgpack", id)
    )
    assert changed == 1


def look(file: SqliteFile, id: str) -> JobStatus:
    record = looking.look(file.connection, NAMESPACE, STREAM, id, file.clock.now_us())
    assert record is not None
    return record.status


# --- damaged rows -----------------------------------------------------------------------------------------


def test_a_state_that_cannot_be_read_is_handed_out_for_the_worker_to_bury(file: SqliteFile) -> None:
    file.append(message("good"), message("bad"), message("better"))
    damage(file, "state", "bad")
    claims = file.claim()
    assert [claim.id for claim in claims] == ["good", "bad", "better"]
    assert [claim.body for claim in claims] == [b"hello", b"", b"hello"]
    assert [bool(claim.unreadable) for claim in claims] == [False, True, False]


def test_a_state_that_cannot_be_read_does_not_keep_the_others_from_being_recovered(file: SqliteFile) -> None:
    file.append(message("good"), message("bad"))
    file.claim()
    damage(file, "state", "bad")
    file.clock.advance(60)
    reclaimed = file.transact(lambda transaction: upkeep.reclaim(transaction, [SOURCE], 100, {}))
    assert [(recovered.id, recovered.crashes) for recovered in reclaimed.recovered] == [("good", 1)]
    assert {claim.id: bool(claim.unreadable) for claim in file.claim()} == {"good": False, "bad": True}


def test_a_failure_that_cannot_be_read_does_not_hide_the_dead_letter(file: SqliteFile) -> None:
    file.append(message("bad"))
    settle_one(file, file.claim()[0], Dead(FAILED, DeadReason.EXHAUSTED, FAILURE))
    damage(file, "failure", "bad")
    listing = RecordListing(STREAM, None, 10, JobStatus.DEAD)
    (letter,) = looking.list_dead(file.connection, NAMESPACE, listing)
    assert (letter.id, letter.payload, letter.reason) == ("bad", b"hello", "exhausted")


def test_a_reason_of_a_newer_version_does_not_hide_the_dead_letter(file: SqliteFile) -> None:
    file.append(message("odd"))
    settle_one(file, file.claim()[0], Dead(FAILED, DeadReason.EXHAUSTED, FAILURE))
    file.connection.run("UPDATE headrace_messages SET reason = 'moonlight'")
    (letter,) = looking.list_dead(file.connection, NAMESPACE, RecordListing(STREAM, None, 10, JobStatus.DEAD))
    assert letter.reason == "moonlight"
    assert look(file, "odd") is JobStatus.DEAD


def test_a_body_that_is_missing_is_handed_out_for_the_worker_to_judge(file: SqliteFile) -> None:
    file.append(message("good"), message("bad"))
    file.connection.run("UPDATE headrace_messages SET body = NULL WHERE id = 'bad'")
    assert [(claim.id, claim.body) for claim in file.claim()] == [("good", b"hello"), ("bad", b"")]


def test_a_worker_that_cannot_be_read_is_left_out(file: SqliteFile) -> None:
    for consumer in ("good", "bad"):
        info = WorkerInfo(consumer, "host", 1, 1, ("work",), 10)
        file.transact(lambda transaction, info=info: workers.beat(transaction, info, info.streams))  # type: ignore[misc]
    file.connection.run("UPDATE headrace_workers SET info = x'ff' WHERE consumer = 'bad'")
    listed = workers.list_workers(file.connection, NAMESPACE, file.clock.now_us())
    assert [worker.consumer for worker in listed] == ["good"]


def test_a_message_whose_worker_nobody_remembers_is_recovered(file: SqliteFile) -> None:
    file.append(message("lost"))
    file.claim()
    file.connection.run("DELETE FROM headrace_workers")
    file.clock.advance(60)
    reclaimed = file.transact(lambda transaction: upkeep.reclaim(transaction, [SOURCE], 100, {}))
    assert [(recovered.id, recovered.worker) for recovered in reclaimed.recovered] == [("lost", "")]


def test_a_priority_that_does_not_exist_is_refused_and_not_lost(file: SqliteFile) -> None:
    with pytest.raises(apsw.ConstraintError):
        file.append(message(priority=7))


# --- leases and the clock ---------------------------------------------------------------------------------


def test_a_clock_that_was_set_back_holds_nothing_for_longer_than_a_lease(file: SqliteFile) -> None:
    file.append(message("held"))
    file.clock.advance(3600)
    file.claim()
    file.clock.advance(-3600)

    def reclaim() -> list[str]:
        reclaimed = file.transact(lambda transaction: upkeep.reclaim(transaction, [SOURCE], 100, {}))
        return [recovered.id for recovered in reclaimed.recovered]

    assert upkeep.is_something_overdue(file.connection, NAMESPACE, [SOURCE], file.clock.now_us())
    assert reclaim() == []
    file.clock.advance(14)
    assert reclaim() == []
    file.clock.advance(2)
    assert reclaim() == ["held"]


# --- sizes ------------------------------------------------------------------------------------------------


def test_a_claim_overwrites_rows_where_they_lie(file: SqliteFile) -> None:
    def pages() -> list[tuple[int, int]]:
        return file.connection.rows(
            "SELECT pageno, payload FROM dbstat WHERE name = 'headrace_messages' ORDER BY pageno"
        )

    file.append(*[message(body=b"x" * 100) for _ in range(500)], message(body=b"x" * 20_000))
    before = pages()
    assert len(file.claim(501)) == 501
    assert pages() == before


def test_one_claim_does_not_hand_out_more_bytes_than_memory_can_bear(file: SqliteFile) -> None:
    body = bytes(CLAIM_BYTES // 4)
    file.append(*[message(f"m{index}", body=body) for index in range(6)])
    assert [claim.id for claim in file.claim()] == ["m0", "m1", "m2", "m3"]
    assert [claim.id for claim in file.claim()] == ["m4", "m5"]


def test_a_message_larger_than_that_is_handed_out_alone(file: SqliteFile) -> None:
    file.append(message("large", body=bytes(CLAIM_BYTES + 1)), message("small"))
    assert [claim.id for claim in file.claim()] == ["large"]
    assert [claim.id for claim in file.claim()] == ["small"]


def test_large_results_are_written_in_portions() -> None:
    claim = Claim(STREAM, "id", b"", (1, 1), 1)
    results = [Settlement(claim, Done(Kept(bytes(MOST_BYTES // 2), SECOND)))] * 5
    assert [len(part) for part in parts_of(results)] == [3, 2]
    assert [len(part) for part in parts_of([Settlement(claim, DONE)] * (MOST_SETTLEMENTS + 1))] == [
        MOST_SETTLEMENTS,
        1,
    ]


# --- counts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_counts_agree_with_the_rows_whatever_was_done(file: SqliteFile, seed: int) -> None:
    chance = random.Random(seed)
    outcomes: list[Outcome] = [
        DONE,
        Done(Kept(b"7", 5 * SECOND)),
        Retry(FAILED, 10 * SECOND),
        Retry(FAILED, 0),
        Snoozed(FRESH, 10 * SECOND),
        Released(),
        Dead(FAILED, DeadReason.EXHAUSTED, FAILURE),
        Cancelled(5 * SECOND),
        Cancelled(0),
    ]
    held: list[Claim] = []
    ids: list[str] = []

    def append() -> None:
        messages = [message(delay_us=chance.choice([0, 0, 5 * SECOND])) for _ in range(chance.randrange(8))]
        ids.extend(each.id for each in messages)
        file.append(*messages)

    def settle_some() -> None:
        chance.shuffle(held)
        part = [Settlement(held.pop(), chance.choice(outcomes)) for _ in range(min(3, len(held)))]
        file.transact(lambda transaction: settle(transaction, [*part, *part]))

    def steer() -> None:
        id = chance.choice([*ids, "unknown"])
        verbs: list[Callable[[Transaction], object]] = [
            lambda transaction: steering.cancel(transaction, STREAM, id, 5 * SECOND),
            lambda transaction: steering.run_now(transaction, STREAM, id),
            lambda transaction: steering.replay(transaction, STREAM, [id, id]),
            lambda transaction: steering.discard(transaction, STREAM, [id, id]),
            lambda transaction: steering.purge(transaction, STREAM, 5 * SECOND, 1),
            lambda transaction: upkeep.promote(transaction, [SOURCE], 3),
            lambda transaction: upkeep.reclaim(transaction, [SOURCE], 3, {}),
            lambda transaction: upkeep.prune(transaction, 5),
        ]
        file.transact(chance.choice(verbs))

    def claim() -> None:
        held.extend(file.claim(3))

    for _ in range(300):
        chance.choice([append, settle_some, steer, claim])()
        file.clock.advance(chance.choice([0, 0, 1, 4]))
    counts = looking.count(file.connection, NAMESPACE, STREAM, file.clock.now_us())
    for status in ("queued", "running", "scheduled", "retrying", "dead"):
        first, last = RANGES[JobStatus(status)]
        rows = file.connection.value(
            "SELECT count(*) FROM headrace_messages WHERE place BETWEEN ? AND ?", (first, last)
        )
        assert getattr(counts, status) == rows, status


def test_streams_of_two_namespaces_in_one_file_are_kept_apart(file: SqliteFile) -> None:
    file.append(message("here"))
    elsewhere = resolve(file.connection, "elsewhere", [STREAM])
    assert elsewhere == []
    assert looking.look(file.connection, "elsewhere", STREAM, "here", file.clock.now_us()) is None
