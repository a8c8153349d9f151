"""Damaged contents of a store: healthy jobs run, and listings never fail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace import App, JobStatus
from headrace.core.runtime.clock import MovableClock
from tests.integration.support.damaged_postgres import Column, PostgresTables
from tests.integration.support.damaged_redis import RedisStore, Spot
from tests.integration.support.damaged_sqlite import Cell, SqliteFile
from tests.integration.support.damaged_store import (
    ELSEWHERE,
    HEALTHY,
    PASSED,
    Shop,
    Value,
    check,
    dead_letters,
    run,
)
from tests.support.postgres_server import PostgresServer
from tests.support.servers import Fleet, also
from tests.support.waiting import wait_until

#: Seconds after which no further example is looked at, however many are left: of few, of many.
MOST_SECONDS, MANY_SECONDS = 8.0, 60.0

MANY = (pytest.mark.more, pytest.mark.timeout(3 * MANY_SECONDS))
lengths = pytest.mark.parametrize(
    "examples", [pytest.param(10, id="few"), pytest.param(600, id="many", marks=MANY)]
)

#: Bytes that are no text, no state and no number, and numbers out of range.
BYTES = st.binary(max_size=12) | st.sampled_from(
    [
        b"\xff",
        b"",
        b"-1",
        b"99999999999999999999",
        b"\x91\xff",
        b"\x95\xff\x00\x00\x00\x90",
        b"4zz;c",
        b"411-1;w",
        b"nan",
        b"e;w",
        b"1 0 0 0",
        b'[["a"]]',
    ]
)
VALUES: st.SearchStrategy[Value] = st.one_of(
    BYTES,
    BYTES.map(bytearray),
    st.sampled_from([None, 0, -1, 2**31, 2**62, 2**63 - 1, -(2**63)]),
    st.integers(1, 9),  # numbers of other rows: of other queues, limits, lines
)


def few_or_many(examples: int) -> settings:
    """Not made smaller: each is a field and a value already."""
    return settings(
        max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None, phases=[Phase.generate]
    )


def ends_at(examples: int) -> float:
    return time.monotonic() + (MOST_SECONDS if examples < 100 else MANY_SECONDS)


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> SqliteFile:
    file = SqliteFile(tmp_path_factory.mktemp("damage"))
    asyncio.run(file.make())
    return file


@pytest.fixture(scope="module", params=["valkey-9.1", *also("redis-7.0")])
def redis(request: pytest.FixtureRequest, servers: Fleet) -> Iterator[RedisStore]:
    store = RedisStore(servers.get(request.param))
    asyncio.run(store.make())
    yield store
    store.close()


@lengths
def test_one_damaged_row_stops_nothing_else(sqlite: SqliteFile, examples: int) -> None:
    until = ends_at(examples)

    @few_or_many(examples)
    @given(st.sampled_from(sqlite.cells()), VALUES)
    def damage(cell: Cell, value: Value) -> None:
        if time.monotonic() < until and sqlite.damage(cell, value):
            asyncio.run(check(sqlite.url, structural=cell.structural))

    damage()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresTables]:
    with PostgresServer() as server:
        tables = PostgresTables(server)
        asyncio.run(tables.make())
        yield tables


@lengths
def test_one_damaged_row_on_postgresql_stops_nothing_else(postgres: PostgresTables, examples: int) -> None:
    until = ends_at(examples)

    @few_or_many(min(examples, 5) if examples < 100 else examples)
    @given(st.sampled_from(postgres.columns()), VALUES)
    def damage(column: Column, value: Value) -> None:
        if time.monotonic() < until and postgres.damage(column, value):
            asyncio.run(check(postgres.url, structural=column.structural))

    damage()


@lengths
def test_one_damaged_key_stops_nothing_else(redis: RedisStore, examples: int) -> None:
    until = ends_at(examples)

    @few_or_many(examples)
    @given(st.sampled_from(redis.spots()), BYTES)
    def damage(spot: Spot, value: bytes) -> None:
        if time.monotonic() < until:
            redis.damage(spot, value)
            asyncio.run(check(redis.url, structural=spot.structural))

    damage()


def test_a_number_beyond_all_bounds_stops_nothing_else(redis: RedisStore) -> None:
    """The history writes the priority of a dead letter again, and no encoder takes such a number."""
    redis.renew()
    [spot] = [spot for spot in redis.spots() if spot.key.endswith(b":s:high") and spot.field == b"p"]
    redis.damage(spot, b"99999999999999999999")
    asyncio.run(check(redis.url, structural=False))


@pytest.mark.parametrize(
    "key",
    [
        b"{headrace:q:work}:meta",
        b"{headrace:q:work}:sched",
        b"{headrace:t:orders}:meta",
        b"{headrace:t:orders}:groups",
        b"{headrace:t:orders}:g:billing/meta",
    ],
)
def test_a_key_that_was_overwritten_keeps_no_worker_from_other_queues(redis: RedisStore, key: bytes) -> None:
    redis.damage(Spot("key", key, structural=True), b"")
    asyncio.run(work_elsewhere(redis.url))


async def work_elsewhere(url: str) -> None:
    clock = MovableClock()
    clock.advance(PASSED)
    shop = Shop(url, clock)

    @shop.app.every(3600)
    @shop.app.task(queue="work")
    async def beside() -> None: ...

    async with shop.app:
        await shop.work(ELSEWHERE)


OF_WORK = "(SELECT stream FROM {}streams WHERE kind = 'queue' AND name = 'work')"


async def test_a_relay_goes_on_without_the_batch_that_was_under_way(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path)
    await file.make()
    connection = file.renewed()
    connection.execute(
        f"UPDATE headrace_outboxes SET batch = x'95ff' WHERE stream = {OF_WORK.format('headrace_')}"
    )
    assert connection.changes() == 1
    connection.close()
    await check(file.url, structural=False)


def test_a_relay_on_postgresql_goes_on_without_it(postgres: PostgresTables) -> None:
    postgres.renew()
    statement = f"UPDATE headrace.outboxes SET batch = '\\x95ff' WHERE stream = {OF_WORK.format('headrace.')}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        assert connection.execute(statement.encode()).rowcount == 1
    asyncio.run(check(postgres.url, structural=False))


@pytest.mark.parametrize("batch", [b"\xff 1 1 0 gone", b"a 1 99999999999999999999 0 gone"])
def test_a_relay_on_a_server_goes_on_without_it(redis: RedisStore, batch: bytes) -> None:
    redis.renew()
    redis.ask("SET", b"{headrace:q:work}:outbox/batch", batch)
    asyncio.run(check(redis.url, structural=False))


def test_schedules_go_on_without_the_list_of_streams(redis: RedisStore) -> None:
    redis.damage(Spot("key", b"headrace:streams", structural=True), b"")
    asyncio.run(check(redis.url, structural=True))


# --- dead letters ----------------------------------------------------------------------------------------


async def bury(url: str) -> Shop:
    """Have a worker meet what cannot be read."""
    clock = MovableClock()
    clock.advance(PASSED)
    shop = Shop(url, clock)
    await shop.work(HEALTHY)
    assert shop.errors == []
    return shop


async def test_a_row_that_cannot_be_read_is_a_dead_letter(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path)
    await file.make()
    connection = file.renewed()
    connection.execute("UPDATE headrace_messages SET state = x'95ff' WHERE id = 'victim-held'")
    connection.execute("UPDATE headrace_messages SET id = CAST(x'ff' AS TEXT) WHERE id = 'victim-queued'")
    connection.execute("UPDATE headrace_messages SET id = CAST(x'fe' AS TEXT) WHERE id = 'victim-dead'")
    connection.close()
    shop = await bury(file.url)
    letters = {letter.id: letter for letter in await dead_letters(shop.app)}
    nameless = sorted(id for id in letters if id.startswith("unreadable-"))
    assert len(nameless) == 2
    assert (letters["victim-held"].reason, letters["victim-held"].payload) == (
        "undecodable",
        msgspec.msgpack.encode([["victim-held"]]),
    )
    assert "its state cannot be read" in letters["victim-held"].error
    shown = await asyncio.to_thread(run, file.url, "dead", "show", nameless[0], "--queue", "work")
    assert nameless[0] in shown
    assert await shop.app.admin.discard(ids=nameless, queue="work") == 2
    assert await shop.app.admin.replay(ids=["victim-held"], queue="work") == 1
    await shop.work(["victim-held"])
    assert await dead_letters(shop.app) == []
    await shop.app.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE headrace_messages SET at_us = 9223372036854775807 WHERE id = 'victim-event-parked'",
        "UPDATE headrace_topics SET last = 9223372036854775807",
    ],
)
async def test_a_number_that_has_no_successor_stops_no_other_stream(tmp_path: Path, statement: str) -> None:
    file = SqliteFile(tmp_path)
    await file.make()
    connection = file.renewed()
    connection.execute(statement)
    connection.close()
    await check(file.url, structural="topics" in statement)


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        (
            "INSERT INTO headrace_events SELECT event + 1, stream, 1, 0, 'odd', '?', '', x'' "
            "FROM headrace_events ORDER BY event DESC LIMIT 1",
            [1, 2, 3, 4, 5],
        ),
        ("DELETE FROM headrace_events WHERE event & 7 = 3", [1, 2, 4, 5]),
    ],
    ids=["added", "deleted"],
)
async def test_a_log_with_a_row_too_many_or_too_few_goes_on(
    tmp_path: Path, statement: str, left: list[int]
) -> None:
    app, seen = App(f"sqlite:///{tmp_path}/jobs.db"), list[int]()
    numbers = app.topic("numbers", int)

    @numbers.subscribe(group="sum", start="beginning")
    async def add(number: int) -> None:
        seen.append(number)

    for number in (1, 2, 3):
        await numbers.publish(number)
    with apsw.Connection(f"{tmp_path}/jobs.db") as connection:
        connection.execute(statement)
    for number in (4, 5):
        await numbers.publish(number)
    async with app.worker():
        await wait_until(lambda: 5 in seen)
        await app.admin.reset_group("numbers", "sum", to=datetime.now(UTC) - timedelta(hours=1))
        await wait_until(lambda: seen.count(5) == 2)
    assert sorted(seen) == sorted(2 * left)
    await app.close()


async def test_an_entry_that_cannot_be_read_is_a_dead_letter(servers: Fleet) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    await store.make()
    store.damage(Spot("entry", b"{headrace:q:work}:s:normal"), b"\xff")
    shop = await bury(store.url)
    letters = [letter for letter in await dead_letters(shop.app) if letter.reason == "undecodable"]
    assert [letter.id.startswith("unreadable-") for letter in letters] == [True, True]
    assert all(b"\xff" in letter.payload for letter in letters)
    ids = [letter.id for letter in letters]
    shown = await asyncio.to_thread(run, store.url, "dead", "show", ids[0], "--queue", "work")
    assert "cannot be read" in shown
    assert await shop.app.admin.replay(ids=ids[:1], queue="work") == 1
    assert await shop.app.admin.discard(ids=ids[1:], queue="work") == 1
    await shop.app.close()
    store.close()


@pytest.mark.parametrize(
    ("statement", "end"),
    [
        ("UPDATE headrace_limits SET declared = '-1'", JobStatus.SUCCEEDED),
        ("UPDATE headrace_limits SET override = '{'", JobStatus.SUCCEEDED),
        (
            """UPDATE headrace_limits SET override = replace(declared, '"count":1000', '"count":0')""",
            JobStatus.SUCCEEDED,
        ),
        (
            "INSERT INTO headrace_budgets (namespace, name, key, running) VALUES "
            "('headrace', 'a', '1', 9223372036854775807), ('headrace', 'a', '2', 9223372036854775807)",
            JobStatus.SUCCEEDED,
        ),
        ("UPDATE headrace_constraints SET content = '3'", JobStatus.DEAD),
        ("UPDATE headrace_constraints SET content = '[[\"a\"]]'", JobStatus.DEAD),
        ("UPDATE headrace_constraints SET content = '{'", JobStatus.DEAD),
        ("UPDATE headrace_lines SET constraints = -1", JobStatus.QUEUED),
        ("UPDATE headrace_constraints SET stream = 0", JobStatus.SUCCEEDED),
        (
            "INSERT INTO headrace_budgets (budget, namespace, name, key, running) "
            "SELECT 0, namespace, name, '', 1 FROM headrace_limits",
            JobStatus.QUEUED,
        ),
        (
            "INSERT INTO headrace_budgets (budget, namespace, name, key) "
            "VALUES (9223372036854775807, 'headrace', 'a', '')",
            JobStatus.SUCCEEDED,
        ),
        (
            "INSERT INTO headrace_budgets (namespace, name, key, timer_us) "
            "VALUES ('headrace', CAST(x'ff' AS TEXT), '', 1)",
            JobStatus.SUCCEEDED,
        ),
    ],
)
async def test_a_damaged_row_of_limits_stops_no_other_jobs(
    tmp_path: Path, statement: str, end: JobStatus
) -> None:
    app, seen = App(f"sqlite:///{tmp_path}/jobs.db"), list[str]()

    @app.task(rate_limit="1000/s", max_running=1)
    async def limited() -> None: ...

    @app.task
    async def free(id: str) -> None:
        seen.append(id)

    await app.admin.limits()
    async with app.worker():
        pass  # declares the limits
    job = await limited.enqueue()
    with apsw.Connection(f"{tmp_path}/jobs.db") as connection:
        connection.execute(statement)
    async with app.worker():
        await free.enqueue("first")
        await wait_until(lambda: seen == ["first"])
        if end is not JobStatus.QUEUED:
            assert await job.wait(timeout=8) is end
        await free.enqueue("second")
        await wait_until(lambda: len(seen) == 2)
        assert [limit.name for limit in await app.admin.limits()] == ["task:" + limited.name]
    await app.close()


@pytest.mark.parametrize(
    ("hash", "text"), [("running", "nan"), ("waiting", ""), ("figures", "1 0 0 0"), ("figures", "1 5 7 1")]
)
async def test_a_damaged_number_of_limits_does_not_keep_them_from_being_listed(
    servers: Fleet, hash: str, text: str
) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    store.ask("FLUSHDB")
    store.ask("HSET", "{headrace:limits}:figures", "mails", "1 - - -")
    store.ask("HSET", f"{{headrace:limits}}:{hash}", "mails", text)
    app = App(store.url)
    assert all("mails" in str(limit.name) and str(limit) for limit in await app.admin.limits())
    await asyncio.to_thread(run, store.url, "limits")
    await app.close()
    store.close()


@pytest.mark.parametrize(
    "change", ["fraction = 9e999", "text = CAST(x'ff' AS TEXT)", "at_us = -1, log = x'ff'"]
)
async def test_progress_that_cannot_be_read_keeps_no_jobs_from_being_listed(
    tmp_path: Path, change: str
) -> None:
    file = SqliteFile(tmp_path)
    await file.make()
    connection = file.renewed()
    connection.execute(f"UPDATE headrace_progress SET {change}")
    connection.close()
    app = App(file.url)
    assert "healthy-work-held" in [info.id for info in await app.admin.jobs("work")]
    info = await app.admin.job("healthy-work-held", queue="work")
    assert info is not None
    assert info.progress is None or 0 <= info.progress.fraction <= 1
    await app.close()


async def test_a_damaged_history_keeps_no_job_from_ending(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(result_ttl=60)
    async def add(number: int) -> int:
        return number + 1

    async with app.worker():
        assert await (await add.enqueue(1)).result(timeout=8) == 2
        with apsw.Connection(f"{tmp_path}/jobs.db") as connection:
            connection.execute("UPDATE headrace_history_sizes SET entries = 9223372036854775807")
        assert await (await add.enqueue(2)).result(timeout=8) == 3
    await app.close()


async def test_an_odd_time_in_the_history_does_not_keep_it_from_being_listed(servers: Fleet) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    store.ask("FLUSHDB")
    store.ask("SADD", "headrace:streams", "queue:work")
    store.ask("ZADD", b"{headrace:q:work}:history", "-inf", "odd", "1e300", "other")
    app = App(store.url)
    assert [*await app.admin.jobs("work", state="succeeded")] == []
    assert await app.admin.job("odd", queue="work") is None
    await app.close()
    store.close()


async def test_an_entry_among_limited_jobs_leaves_none_of_them_behind(servers: Fleet) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    store.ask("FLUSHDB")
    app, seen = App(store.url), list[int]()

    @app.task(name="note", ordered_by="key")
    async def note(number: int, key: str) -> None:
        seen.append(number)

    async with app.worker():
        await (await note.enqueue(1, "k")).wait(timeout=8)
        for _ in range(3):
            store.ask("XADD", b"{headrace:q:default}:s:held", "*", "odd", "odd")
        await (await note.enqueue(2, "k")).wait(timeout=8)
    assert seen == [1, 2]
    await app.close()
    store.close()


async def test_a_count_of_the_wrong_type_stops_no_jobs(servers: Fleet) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    store.ask("FLUSHDB")
    app = App(store.url)

    @app.task(name="limited", max_running=1)
    async def limited() -> None: ...

    @app.task(name="free")
    async def free() -> None: ...

    job = await limited.enqueue()
    store.ask("RPUSH", b"{headrace:limits}:runs/task:limited/", "odd")
    async with app.worker(grace=1):
        assert await (await free.enqueue()).wait(timeout=8) is JobStatus.SUCCEEDED
        assert await job.wait(timeout=8) is JobStatus.SUCCEEDED
    await app.close()
    store.close()


#: The hash with the messages that are in no lane.
MESSAGES = b"{headrace:q:work}:msg"


@pytest.mark.parametrize("kind", ["valkey-9.1", *also("redis-7.0")])
@pytest.mark.parametrize(
    "written", [b"\xff", msgspec.msgpack.encode(["i", "victim-again", "t", "note", "m", ""] + 9000 * ["x"])]
)
async def test_a_message_that_cannot_be_unpacked_keeps_no_others_from_being_promoted(
    servers: Fleet, kind: str, written: bytes
) -> None:
    store = RedisStore(servers.get(kind))
    await store.make()
    store.damage(Spot("hash", MESSAGES, b"victim-again"), written)
    shop = await bury(store.url)
    [letter] = [each for each in await dead_letters(shop.app) if each.reason == "undecodable"]
    assert (letter.id, letter.payload) == ("victim-again", written)
    await shop.app.close()
    store.close()


async def test_an_ordered_key_in_a_queue_stops_no_replay_and_no_purge(servers: Fleet) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    await store.make()
    ordered = msgspec.msgpack.encode(["i", "victim-dead", "t", "note", "m", "", "u", "kkey"])
    store.damage(Spot("hash", MESSAGES, b"victim-dead"), ordered)
    app = App(store.url)
    assert await app.admin.replay(queue="work") == 1
    await app.admin.purge("work")
    assert [info.id for info in await app.admin.jobs("work", state="queued")] == []
    await app.close()
    store.close()


@pytest.mark.parametrize(
    "command",
    [
        ("ZADD", b"{headrace:q:work}:due", "inf", "victim-due"),
        ("ZADD", b"{headrace:q:work}:due", "-inf", "victim-due"),
        ("ZADD", b"{headrace:q:work}:due", "5", ""),
        ("XADD", b"{headrace:q:work}:s:normal", f"{2**64 - 1}-1", "i", "late", "t", "note", "m", ""),
    ],
    ids=str,
)
async def test_every_page_of_a_listing_can_be_read(servers: Fleet, command: tuple[str | bytes, ...]) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    await store.make()
    store.ask(*command)
    app = App(store.url)
    page = await app.admin.jobs("work", limit=1)
    ids = [info.id for info in page]
    while page.cursor:
        page = await app.admin.jobs("work", limit=1, cursor=page.cursor)
        ids += [info.id for info in page]
    assert {"healthy-work-due", "victim-dead"} <= {*ids}
    await app.close()
    store.close()


@pytest.mark.parametrize("entry", ["3-1", "4-0", "9-7", "*"])
@pytest.mark.parametrize("ordered", [False, True])
async def test_an_event_of_another_program_keeps_no_others_from_being_handled_once(
    servers: Fleet, entry: str, ordered: bool
) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    app, seen = App(store.url), list[int]()
    numbers = app.topic("numbers", int)

    @numbers.subscribe(group="sum", start="beginning", ordered=ordered)
    async def add(number: int) -> None:
        seen.append(number)

    for number in (1, 2, 3):
        await numbers.publish(number, key="k")
    store.ask("XADD", b"{headrace:t:numbers}:log", entry, "odd", "odd")
    for number in (4, 5):
        await numbers.publish(number, key="k")
    async with app.worker():
        await wait_until(lambda: 5 in seen)
        await numbers.publish(6, key="k")
        await wait_until(lambda: 6 in seen)
    assert sorted(seen) == [1, 2, 3, 4, 5, 6]
    await app.close()
    store.close()


@pytest.mark.parametrize("key", [b"{headrace:q:work}:dead", b"{headrace:t:orders}:meta"])
async def test_a_key_of_the_wrong_type_hides_no_other_stream(servers: Fleet, key: bytes) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    await store.make()
    store.damage(Spot("key", key), b"odd")
    app = App(store.url)
    assert "other" in [queue.name for queue in await app.admin.queues()]
    await app.admin.topics()
    await app.admin.dead()
    assert await app.admin.job("healthy-other-queued") is not None
    if b":q:" in key:
        assert any("queue work" in finding.text for finding in await app.admin.doctor())
    await app.close()
    store.close()


async def test_what_cannot_be_put_where_it_belongs_is_a_dead_letter(servers: Fleet) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    await store.make()
    store.damage(Spot("key", b"{headrace:q:other}:retry"), b"odd")
    app = App(store.url)

    @app.task(name="fails", queue="other")
    async def fails() -> None:
        raise ValueError

    job = await fails.enqueue()
    async with app.worker(queues=["other"], grace=1):
        assert await job.wait(timeout=8) is JobStatus.DEAD
    info = await job.info()
    assert info is not None
    assert info.reason == "refused"
    await app.close()
    store.close()
