"""Whatever somebody writes into a store, or a disk makes of it: healthy jobs run, and looking never fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace import App, JobStatus
from headrace.core.runtime.clock import MovableClock
from tests.integration.support.damaged_redis import RedisStore, Spot
from tests.integration.support.damaged_sqlite import Cell, SqliteFile
from tests.integration.support.damaged_store import HEALTHY, PASSED, Shop, Value, check, dead_letters, run
from tests.support.servers import Fleet, also

#: Seconds after which no further example is looked at, however many are left: of few, of many.
MOST_SECONDS, MANY_SECONDS = 12.0, 60.0

MANY = (pytest.mark.more, pytest.mark.timeout(3 * MANY_SECONDS))
lengths = pytest.mark.parametrize(
    "examples", [pytest.param(15, id="few"), pytest.param(600, id="many", marks=MANY)]
)

#: No text, no state, no number, and numbers that nobody means.
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
    ]
)
VALUES: st.SearchStrategy[Value] = st.one_of(
    BYTES,
    BYTES.map(bytearray),
    st.sampled_from([None, 0, -1, 3, 2**31, 2**62, 2**63 - 1, -(2**63)]),
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


@pytest.mark.parametrize("kind", ["valkey-9.1", *also("redis-7.0")])
async def test_a_message_that_cannot_be_unpacked_keeps_no_others_from_being_promoted(
    servers: Fleet, kind: str
) -> None:
    store = RedisStore(servers.get(kind))
    await store.make()
    for spot in store.spots():
        if spot.kind == "hash" and spot.key.endswith(b"work}:msg") and spot.part == b"victim-again":
            store.damage(spot, b"\xff")
    shop = await bury(store.url)
    [letter] = [each for each in await dead_letters(shop.app) if each.reason == "undecodable"]
    assert (letter.id, letter.payload) == ("victim-again", b"\xff")
    await shop.app.close()
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
