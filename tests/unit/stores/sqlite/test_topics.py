"""Topics and groups in a SQLite file: what is copied at once, in which order, and what rows must agree on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import FRESH, Batch, Message, Stream, TrailEntry, group_stream
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
)
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.topic import BEGINNING, NEW, PARKED_MOST, PARKED_OF_KEY, Start, TopicRules
from headrace.stores import open_store
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sql.rows.topic_rows import MOST_BYTES
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.store import SqliteStore
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.threads.waiters import ReadWaiter
from headrace.stores.sqlite.topics import groups, log, retention, topic_records
from headrace.stores.sqlite.topics.publish import publish
from headrace.stores.sqlite.verbs import steering, upkeep
from headrace.stores.sqlite.verbs.claim import claim
from headrace.stores.sqlite.verbs.removal import remove_stream
from headrace.stores.sqlite.verbs.settle import settle
from tests.support.waiting import wait_until
from tests.unit.stores.sqlite.sqlite_file import NAMESPACE, SqliteFile

TOPIC = Stream("topic", "orders")
GROUP = group_stream("orders", "billing")
SOURCE = GROUP
FAILED = FRESH.failed(TrailEntry(1, "failed", "worker-1", "oops"))
FAILURE = Failure("ValueError", "oops")


class Shop:
    """The topic `orders` with one group, in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self.file = file
        self._numbers = 0

    def join(self, start: Start = BEGINNING, *, ordered: bool = False) -> None:
        self.file.transact(lambda transaction: groups.join(transaction, GROUP, start, ordered=ordered))

    def publish(self, *events: Message) -> None:
        self._numbers += 1
        batch = Batch(TOPIC, "producer", self._numbers, list(events))
        self.file.transact(lambda transaction: publish(transaction, batch))

    def claim(self, limit: int = 100, *, suspects: int = 100) -> list[Claim]:
        request = ClaimQuery([SOURCE], "worker-1", limit, suspects, 1)
        return self.file.transact(lambda transaction: claim(transaction, request))

    def claim_ids(self, limit: int = 100) -> list[str]:
        return [each.id for each in self.claim(limit)]

    def settle(self, outcome: Outcome, *claims: Claim) -> None:
        settlements = [Settlement(each, outcome) for each in claims]
        self.file.transact(lambda transaction: settle(transaction, settlements))

    def reset(self, start: Start) -> None:
        assert self.file.transact(lambda transaction: groups.reset(transaction, GROUP, start))

    def numbers(self, sql: str, *bindings: int) -> int:
        number: int = self.file.connection.value(sql, bindings)
        return number


@pytest.fixture
def shop(file: SqliteFile) -> Shop:
    return Shop(file)


def event(id: str, key: str = "", *, body: bytes = b"hello", delay: int = 0) -> Message:
    return Message(id, "placed", body, key=key, delay_us=delay * SECOND)


# --- at once ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
def test_a_group_copies_no_more_bytes_at_once_than_a_claim_hands_out(shop: Shop, *, ordered: bool) -> None:
    shop.join(ordered=ordered)
    shop.publish(*[event(f"e{number}", str(number), body=bytes(MOST_BYTES // 4)) for number in range(9)])
    assert shop.claim_ids() == ["e0", "e1", "e2", "e3"]
    assert shop.numbers("SELECT sum(length(body)) FROM headrace_messages") == MOST_BYTES
    assert shop.claim_ids() == ["e4", "e5", "e6", "e7"]
    assert shop.claim_ids() == ["e8"]


@pytest.mark.parametrize("ordered", [False, True])
def test_an_event_larger_than_that_is_drawn_alone(shop: Shop, *, ordered: bool) -> None:
    shop.join(ordered=ordered)
    shop.publish(event("large", "a", body=bytes(MOST_BYTES + 1)), event("small", "b"))
    assert shop.claim_ids() == ["large"]
    assert shop.claim_ids() == ["small"]


def test_one_reading_holds_no_more_bytes_either(shop: Shop) -> None:
    shop.publish(*[event(f"e{number}", body=bytes(MOST_BYTES // 4)) for number in range(6)])
    reading = log.read(shop.file.connection, NAMESPACE, TOPIC, 0, limit=100, now_us=7)
    assert 1 <= len(reading.entries) <= 4
    assert (reading.position, reading.now_us) == (len(reading.entries), 7)


def test_a_claim_draws_no_more_than_it_hands_out(shop: Shop) -> None:
    shop.join()
    shop.publish(*[event(f"e{number}") for number in range(50)])
    shop.claim(10)
    assert shop.numbers("SELECT count(*) FROM headrace_messages") == 10
    assert shop.numbers("SELECT position FROM headrace_groups") == 10


def test_a_claim_passes_over_thousands_of_events_that_the_group_has(shop: Shop) -> None:
    shop.join()
    shop.publish(*[event(f"e{number}") for number in range(3000)])
    while shop.claim(1000):
        pass
    shop.publish(event("new"))
    shop.reset(BEGINNING)
    assert shop.claim_ids(1) == ["new"]
    assert shop.numbers("SELECT running FROM headrace_streams WHERE kind = 'group'") == 3001


def test_an_event_that_comes_round_again_takes_the_place_of_its_end_record(shop: Shop) -> None:
    shop.join()
    shop.publish(event("e1"), event("e2"))
    shop.settle(Done(Kept(b"7", 3600 * SECOND)), *shop.claim())
    shop.reset(BEGINNING)
    assert shop.claim_ids() == ["e1", "e2"]
    assert shop.numbers("SELECT count(*) FROM headrace_messages") == 2


def test_an_old_success_does_not_end_an_event_that_came_round_again(shop: Shop) -> None:
    shop.join()
    shop.publish(event("e1"))
    first = shop.claim()
    shop.settle(Done(Kept(b"7", 3600 * SECOND)), *first)
    shop.reset(BEGINNING)
    shop.claim()
    shop.settle(DONE, *first)
    assert shop.numbers("SELECT running FROM headrace_streams WHERE kind = 'group'") == 1


# --- order ------------------------------------------------------------------------------------------------


def test_those_that_are_parked_keep_their_order_when_the_clock_is_set_back(shop: Shop) -> None:
    shop.join(ordered=True)
    shop.publish(event("a1", "a"), event("a2", "a"))
    (running,) = shop.claim()
    shop.file.clock.advance(-3600)
    shop.publish(event("a3", "a"))
    assert shop.claim() == []
    for id in ("a2", "a3"):
        shop.settle(DONE, running)
        (running,) = shop.claim()
        assert running.id == id


def test_times_in_the_log_never_fall(shop: Shop) -> None:
    shop.publish(event("e1"))
    shop.file.clock.advance(-3600)
    shop.publish(event("e2"))
    shop.publish(event("e3", delay=1))
    shop.file.clock.advance(2)
    shop.file.transact(lambda transaction: upkeep.promote(transaction, [TOPIC], 100))
    times = [row[0] for row in shop.file.connection.rows("SELECT at_us FROM headrace_events ORDER BY event")]
    assert len(times) == 3
    assert times == sorted(times)


def test_a_group_that_has_parked_too_many_goes_on_when_there_is_room(shop: Shop) -> None:
    shop.join(ordered=True)
    shop.publish(*[event(f"a{number:04}", "a") for number in range(PARKED_MOST + 1)], event("b", "b"))
    running, other = shop.claim()
    assert (running.id, other.id) == ("a0000", "b")
    assert shop.numbers("SELECT parked FROM headrace_streams WHERE kind = 'group'") == PARKED_OF_KEY
    shop.settle(DONE, running)
    assert shop.claim_ids() == ["a0001"]


# --- what the rows agree on -------------------------------------------------------------------------------


def check(file: SqliteFile) -> None:
    """Counts, keys and places of an ordered group belong together."""
    rows = file.connection.rows(
        "SELECT place, unique_key, id FROM headrace_messages"
        " NATURAL JOIN headrace_streams WHERE kind = 'group'"
    )
    columns = "queued, running, scheduled, retrying, dead, parked"
    counted = file.connection.row(f"SELECT {columns} FROM headrace_streams WHERE kind = 'group'")
    ranges = ((2, 6), (7, 7), (8, 8), (9, 9), (10, 10), (1, 1))
    assert list(counted) == [sum(low <= row[0] <= high for row in rows) for low, high in ranges]
    holders = {key: id for place, key, id in rows if key and 2 <= place <= 9}
    assert len(holders) == sum(bool(key) and 2 <= place <= 9 for place, key, _ in rows), "two hold one key"
    assert dict(file.connection.rows("SELECT key, id FROM headrace_unique_keys")) == holders
    assert {key for place, key, _ in rows if place == 1} <= holders.keys(), "parked behind nobody"


@pytest.mark.parametrize("seed", range(5))
def test_keys_and_counts_agree_with_the_rows_whatever_was_done(shop: Shop, seed: int) -> None:
    chance = random.Random(seed)
    file = shop.file
    shop.join(ordered=True)
    held: list[Claim] = []
    ids: list[str] = []
    outcomes: list[Outcome] = [
        DONE,
        DONE,
        Done(Kept(b"7", 5 * SECOND)),
        Retry(FAILED, 3 * SECOND),
        Retry(FAILED, 0),
        Released(),
        Dead(FAILED, DeadReason.EXHAUSTED, FAILURE),
        Cancelled(5 * SECOND),
    ]

    def publish() -> None:
        events = [event(new_id(), chance.choice("aabc")) for _ in range(chance.randrange(1, 6))]
        ids.extend(each.id for each in events)
        shop.publish(*events)

    def claim() -> None:
        held.extend(shop.claim(chance.choice([1, 3, 100])))

    def settle_some() -> None:
        chance.shuffle(held)
        part = [held.pop() for _ in range(min(3, len(held)))]
        shop.settle(chance.choice(outcomes), *part, *part)

    def steer() -> None:
        id, other = chance.choice([*ids, "unknown"]), chance.choice([*ids, "unknown"])
        starts = [NEW, BEGINNING, *[Start("event", event=id)] * (id in ids)]
        verbs: list[Callable[[Transaction], object]] = [
            lambda transaction: steering.cancel(transaction, GROUP, id, 5 * SECOND),
            lambda transaction: steering.run_now(transaction, GROUP, id),
            lambda transaction: steering.replay(transaction, GROUP, [id, other]),
            lambda transaction: steering.replay(transaction, GROUP, ids),
            lambda transaction: steering.discard(transaction, GROUP, [id]),
            lambda transaction: steering.purge(transaction, GROUP, 5 * SECOND, 2),
            lambda transaction: upkeep.promote(transaction, [SOURCE], 3),
            lambda transaction: upkeep.reclaim(transaction, [SOURCE], 3, {}),
            lambda transaction: upkeep.prune(transaction, 5),
            lambda transaction: groups.reset(transaction, GROUP, chance.choice(starts)),
        ]
        file.transact(chance.choice(verbs))

    for _ in range(300):
        chance.choice([publish, claim, claim, settle_some, settle_some, steer])()
        file.clock.advance(chance.choice([0, 0, 1, 4]))
        check(file)
    assert file.transact(lambda transaction: remove_stream(transaction, GROUP))
    check(file)
    assert shop.numbers("SELECT count(*) FROM headrace_messages") == 0


def test_a_group_removed_in_the_transaction_that_filled_it_counts_nothing(shop: Shop) -> None:
    shop.join()
    shop.publish(event("e1"), event("e2"))

    def claim_and_remove(transaction: Transaction) -> None:
        claim(transaction, ClaimQuery([SOURCE], "worker-1", 1, 1, 1))
        remove_stream(transaction, GROUP)

    shop.file.transact(claim_and_remove)
    check(shop.file)


# --- retention --------------------------------------------------------------------------------------------


def test_an_append_trims_a_little_and_a_tend_the_rest(shop: Shop) -> None:
    shop.publish(*[event(f"e{number}") for number in range(1000)])
    rules = TopicRules(max_length=10)
    shop.file.transact(lambda transaction: log.declare_topic(transaction, TOPIC, rules))
    shop.publish(event("new"))
    (record,) = topic_records.list_topics(shop.file.connection, NAMESPACE, None, 0)
    assert (record.first, record.last) == (102, 1001)
    shop.join(NEW)
    tended = shop.file.transact(lambda transaction: retention.keep_topics(transaction, [GROUP], 500, {}))
    assert (tended.trimmed, tended.more) == (500, True)
    tended = shop.file.transact(lambda transaction: retention.keep_topics(transaction, [GROUP], 500, {}))
    assert (tended.trimmed, tended.more) == (390, False)
    assert shop.numbers("SELECT count(*) FROM headrace_events") == 10


def test_a_position_that_was_trimmed_away_does_not_keep_a_claim_writing(shop: Shop) -> None:
    shop.join()
    shop.publish(*[event(f"e{number}") for number in range(3)])
    rules = TopicRules(max_length=0, strict=False)
    shop.file.transact(lambda transaction: log.declare_topic(transaction, TOPIC, rules))
    shop.file.transact(lambda transaction: retention.keep_topics(transaction, [GROUP], 500, {}))
    assert shop.claim() == []
    assert shop.numbers("SELECT last - position FROM headrace_groups CROSS JOIN headrace_topics") == 0


# --- without the write lock -------------------------------------------------------------------------------


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    backend = open_store(f"sqlite:///{tmp_path}/jobs.db")
    assert isinstance(backend, SqliteStore)
    await backend.open()
    yield backend
    await backend.close()


async def test_a_group_that_has_drawn_everything_and_a_reader_do_not_lock_the_file(
    backend: SqliteStore, tmp_path: Path
) -> None:
    await backend.join(GROUP, BEGINNING)
    await backend.append(Batch(TOPIC, "producer", 1, [event("e1"), event("e2", delay=3600)]))
    (held,) = await backend.claim([SOURCE], consumer="worker-1", limit=9, suspects=1, wait=0)
    writer = Connection(tmp_path / "jobs.db")
    writer.open()
    writer.begin()
    async with asyncio.timeout(30):  # a verb that wants the lock is refused after five
        assert await backend.claim([SOURCE], consumer="worker-1", limit=9, suspects=1, wait=0.1) == []
        reading = await backend.read(TOPIC, 0, consumer="reader", limit=9, wait=0)
        assert [entry.id for entry in reading.entries] == [held.id]
        assert (await backend.read(TOPIC, 1, consumer="reader", limit=9, wait=0.1)).entries == ()
        assert (await backend.promote([TOPIC, SOURCE], limit=9)).count == 0
        assert (await backend.counts(GROUP)).running == 1
        assert [record.scheduled for record in await backend.topics()] == [1]
    writer.undo()
    writer.close()


async def test_a_closing_backend_lets_its_readers_go(backend: SqliteStore) -> None:
    await backend.append(Batch(TOPIC, "producer", 1, [event("e1")]))
    reading = asyncio.ensure_future(backend.read(TOPIC, NEW, consumer="reader", limit=9, wait=60))
    bells = backend._use().waiters._claims
    await wait_until(lambda: [bell for bell in bells if isinstance(bell, ReadWaiter) and bell.position == 1])
    async with asyncio.timeout(10):
        await backend.close()
        assert ((await reading).entries, (await reading).position) == ((), 1)
