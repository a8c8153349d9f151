"""What statements cost: none sorts, none walks through all messages, and a claim from a long queue takes as
many steps as one from a short queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream, group_stream
from headrace.core.messages.outcome import DONE, Done, Kept, Settlement
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.topic import BEGINNING, TopicRules
from headrace.stores.sqlite.statements import (
    message_statements,
    record_statements,
    stream_statements,
    topic_statements,
    upkeep_statements,
)
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics import groups, log, retention, topic_records
from headrace.stores.sqlite.topics.publish import publish
from headrace.stores.sqlite.verbs import looking, upkeep
from headrace.stores.sqlite.verbs.claim import is_something_ready
from headrace.stores.sqlite.verbs.settle import settle
from tests.unit.stores.sqlite.sqlite_file import NAMESPACE, SOURCE, STREAM, SqliteFile, message

HOUR = 3600 * SECOND

TOPIC = Stream("topic", "orders")
GROUP, ORDERED = group_stream("orders", "billing"), group_stream("orders", "index")
NUMBERS = count(1)

#: All that touch messages or events; the other tables are small.
STATEMENTS = {
    name: text
    for module in (
        message_statements,
        record_statements,
        stream_statements,
        topic_statements,
        upkeep_statements,
    )
    for name, text in vars(module).items()
    if name.isupper() and not name.startswith("_") and re.search("headrace_(messages|events)", text)
}

#: A plan that goes through all rows of a table that grows, whatever the statement calls it.
WALK = r"SCAN (headrace_(messages|events|unique_keys)|messages?|events|parked|keys|owner)\b"


def plan_of(file: SqliteFile, sql: str) -> list[str]:
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    count = max(numbered) if numbered else sql.count("?")
    bindings = ("[]",) * count
    return [row[3] for row in file.connection.rows(f"EXPLAIN QUERY PLAN {sql}", bindings)]


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_sorts(file: SqliteFile, name: str) -> None:
    plan = plan_of(file, STATEMENTS[name])
    assert not [line for line in plan if "TEMP B-TREE" in line]


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_walks_through_all_messages(file: SqliteFile, name: str) -> None:
    plan = plan_of(file, STATEMENTS[name])
    assert not [line for line in plan if re.match(WALK, line)]
    assert not [line for line in plan if "AUTOMATIC" in line]


@pytest.mark.parametrize(
    "name",
    [
        "FIND_READY",
        "IS_SOMETHING_READY",
        "READ_OVERDUE",
        "FIND_DUE",
        "PRUNE_END_RECORDS",
        "READ_WAITING",
        "LIST_PLACE",
        "LIST_QUEUED",
        "LIST_RUNNING",
        "LIST_OVER",
    ],
)
def test_what_is_wanted_by_place_and_time_is_found_by_the_index(file: SqliteFile, name: str) -> None:
    plan = " / ".join(plan_of(file, STATEMENTS[name]))
    assert re.search(r"USING (COVERING )?INDEX headrace_messages_place \(stream=\? AND place=\?", plan) or (
        name == "IS_SOMETHING_READY" and "headrace_messages_place (stream=? AND place>? AND place<?" in plan
    )


def test_keys_that_have_run_out_are_found_by_their_time(file: SqliteFile) -> None:
    assert any(
        "headrace_unique_keys_expiry (expires_us<?)" in line
        for line in plan_of(file, upkeep_statements.PRUNE_KEYS)
    )


def test_the_end_records_of_events_that_come_round_again_are_found_by_their_ids(file: SqliteFile) -> None:
    plan = plan_of(file, topic_statements.FORGET_END_RECORDS)
    assert any("headrace_messages_id (stream=? AND id=?)" in line for line in plan)


def test_who_is_next_for_a_key_is_found_by_the_key(file: SqliteFile) -> None:
    plan = plan_of(file, topic_statements.FIND_NEXT)
    assert any("headrace_messages_parked (stream=? AND unique_key=?)" in line for line in plan)


# --- steps of the virtual machine -------------------------------------------------------------------------


def steps_of(file: SqliteFile, run: Callable[[], object]) -> int:
    """How many instructions SQLite carried out."""
    steps = 0

    def count(event: dict[str, dict[str, int]]) -> None:
        nonlocal steps
        steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    handle = file.connection._use()
    handle.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
    run()
    handle.trace_v2(0, None)
    return steps


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteFile]:
    yield from filled(tmp_path_factory.mktemp("short"), 2000)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteFile]:
    yield from filled(tmp_path_factory.mktemp("long"), 20_000)


def filled(folder: Path, count: int) -> Iterator[SqliteFile]:
    """As many are queued as are scheduled for much later."""
    file = SqliteFile(folder / "jobs.db")
    file.fill(count)
    file.fill(count, delay_us=HOUR)
    fill_topic(file, count)
    yield file
    file.close()


def fill_topic(file: SqliteFile, count: int) -> None:
    """With a group that has drawn nothing, and an ordered one that holds many keys."""
    for group in (GROUP, ORDERED):
        file.transact(
            lambda transaction, group=group: groups.join(  # type: ignore[misc]
                transaction, group, BEGINNING, ordered=group is ORDERED
            )
        )
    for _ in range(count // 1000):
        publish_some(file, 1000)
    file.claim(500, source=ORDERED)


def publish_some(file: SqliteFile, count: int) -> None:
    events = [Message(new_id(), "placed", b"hello", key=str(number % 600)) for number in range(count)]
    batch = Batch(TOPIC, "producer", next(NUMBERS), events)
    file.transact(lambda transaction: publish(transaction, batch))


def trim(file: SqliteFile) -> None:
    """As many as one step may, of what is older than a day."""

    def run(transaction: Transaction) -> None:
        log.declare_topic(transaction, TOPIC, TopicRules(retention_us=SECOND, strict=False))
        assert retention.keep_topics(transaction, [GROUP], 100, {}).trimmed == 100

    file.clock.advance(7200)
    file.transact(run)


def settle_all(file: SqliteFile, claims: list[Claim], outcome: Done) -> None:
    settlements = [Settlement(claim, outcome) for claim in claims]
    file.transact(lambda transaction: settle(transaction, settlements))


def promote(file: SqliteFile) -> None:
    def run(transaction: Transaction) -> None:
        assert upkeep.promote(transaction, [SOURCE], 100).count == 100

    file.clock.advance(7200)
    file.transact(run)


@pytest.mark.parametrize(
    "verb",
    [
        lambda file: file.claim(100),
        lambda file: file.claim(100, turn=10),
        lambda file: settle_all(file, file.claim(100), DONE),
        lambda file: settle_all(file, file.claim(100), Done(Kept(b"7", SECOND))),
        lambda file: file.append(*[message() for _ in range(100)]),
        lambda file: is_something_ready(file.connection, NAMESPACE, [SOURCE], suspects=True),
        lambda file: looking.count(file.connection, NAMESPACE, STREAM, file.clock.now_us()),
        promote,
        lambda file: publish_some(file, 100),
        lambda file: file.claim(100, source=GROUP),
        lambda file: settle_all(file, file.claim(10, source=ORDERED), DONE),
        lambda file: is_something_ready(file.connection, NAMESPACE, [GROUP], suspects=True),
        lambda file: topic_records.count(file.connection, NAMESPACE, TOPIC, file.clock.now_us()),
        lambda file: topic_records.count(file.connection, NAMESPACE, ORDERED, file.clock.now_us()),
        lambda file: log.read(file.connection, NAMESPACE, TOPIC, 1000, limit=100, now_us=1),
        trim,
    ],
    ids=[
        *("claim", "claim-from-below", "settle", "settle-kept", "append", "probe", "counts", "promote"),
        *("publish", "draw", "settle-in-order", "probe-group", "counts-topic", "counts-group"),
        *("read", "trim"),
    ],
)
def test_a_verb_takes_as_many_steps_with_a_long_queue_as_with_a_short_one(
    short: SqliteFile, long: SqliteFile, verb: Callable[[SqliteFile], object]
) -> None:
    few, many = steps_of(short, lambda: verb(short)), steps_of(long, lambda: verb(long))
    assert few > 0
    # A few steps to and fro: chunks of a batch that fall on the border of the index's pages, and the search
    # for a time, which halves the log.
    assert abs(many - few) <= max(0.02 * few, 80)
