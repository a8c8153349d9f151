"""The threads of a SQLite backend: shared commits, steps that fail alone, and nothing left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from headrace import App
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import DONE, Settlement, Verdict
from headrace.core.records.control import ControlMessage, PauseNotice
from headrace.core.records.record import WorkerInfo
from headrace.core.runtime.clock import SECOND
from headrace.stores import open_store
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.connection.fair_write_lock import FairWriteLock
from headrace.stores.sqlite.store import SqliteStore
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.threads.waiters import ControlListener
from headrace.stores.sqlite.verbs.control import StoredNotice
from headrace.testing.contract.kit.heartbeats import beat
from tests.support.waiting import wait_until, wait_until_sync

STREAM = Stream("queue", "work")
SOURCE = STREAM
LEASE_US = 30 * SECOND


def batch(*ids: str, producer: str = "producer", number: int = 1) -> Batch:
    return Batch(STREAM, producer, number, [Message(id, "greet", b"hello") for id in ids])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def backend(url: str) -> AsyncIterator[SqliteStore]:
    backend = open_store(url)
    assert isinstance(backend, SqliteStore)
    await backend.open()
    await backend.declare_stream(SOURCE, LEASE_US)
    yield backend
    await backend.close()


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How safe each commit of this process was."""
    levels: list[str] = []
    commit = Connection.commit

    def counted(connection: Connection) -> None:
        levels.append({1: "NORMAL", 2: "FULL"}[connection.value("PRAGMA synchronous")])
        commit(connection)

    monkeypatch.setattr(Connection, "commit", counted)
    return levels


# --- sharing a transaction --------------------------------------------------------------------------------


async def test_what_gathers_during_one_commit_shares_the_next(
    backend: SqliteStore, commits: list[str]
) -> None:
    appends = [backend.append(batch(new_id(), producer=f"p{number}")) for number in range(200)]
    answers = await asyncio.gather(*appends)
    assert {answer.verdict for (answer,) in answers} == {"accepted"}
    assert len(commits) < 50
    assert (await backend.counts(STREAM)).queued == 200


async def test_a_lone_verb_is_one_commit(backend: SqliteStore, commits: list[str]) -> None:
    await backend.append(batch("alone"))
    assert len(commits) == 1


async def test_a_step_that_fails_does_not_spoil_those_beside_it(backend: SqliteStore) -> None:
    def fail(transaction: Transaction) -> None:
        transaction.connection.run("DELETE FROM headrace_streams")
        raise ValueError("this one is wrong")

    results = await asyncio.gather(
        backend.append(batch("before", producer="one")),
        backend._write(fail),
        backend.append(batch("after", producer="two")),
        return_exceptions=True,
    )
    assert isinstance(results[1], ValueError)
    assert await backend.get(STREAM, "before")
    assert await backend.get(STREAM, "after")


async def test_no_error_of_the_library_leaves_the_backend(backend: SqliteStore) -> None:
    with pytest.raises(BackendUnavailable, match="no such table"):
        await backend._write(lambda transaction: transaction.connection.run("SELECT * FROM nowhere"))
    with pytest.raises(BackendUnavailable, match="no such table"):
        await backend._read(lambda connection, _: connection.rows("SELECT * FROM nowhere"))
    await backend.append(batch("fine"))


async def test_the_reader_cannot_write(backend: SqliteStore) -> None:
    with pytest.raises(BackendUnavailable):
        await backend._read(lambda connection, _: connection.run("DELETE FROM headrace_streams"))


# --- how safe ---------------------------------------------------------------------------------------------


async def test_what_must_not_be_lost_waits_for_the_disk_and_the_rest_does_not(
    backend: SqliteStore, commits: list[str]
) -> None:
    await backend.append(batch("job"))
    assert commits.pop() == "FULL"
    (claim,) = await backend.claim([SOURCE], consumer="worker-1", limit=1, suspects=0, wait=0)
    await beat(backend, WorkerInfo("worker-1", "host", 1, 1, ("work",), 1))
    leases = backend.lease_keeper()
    await leases.renew([claim])
    await leases.close()
    assert {commits.pop() for _ in range(3)} == {"NORMAL"}
    assert await backend.settle([Settlement(claim, DONE)]) == [Verdict.KEPT]
    assert commits == ["FULL"]


async def test_a_relaxed_store_never_waits_for_the_disk(url: str, commits: list[str]) -> None:
    backend = open_store(url, durability="relaxed")
    await backend.open()
    await backend.append(batch("job"))
    await backend.close()
    assert set(commits) == {"NORMAL"}


# --- without the write lock -------------------------------------------------------------------------------


async def test_a_verb_that_finds_nothing_to_do_does_not_lock_the_file(
    backend: SqliteStore, tmp_path: Path
) -> None:
    writer = Connection(tmp_path / "jobs.db")
    writer.open()
    writer.begin()
    async with asyncio.timeout(30):  # a verb that wants the lock is refused after five
        assert await backend.claim([SOURCE], consumer="worker-1", limit=9, suspects=1, wait=0.1) == []
        assert (await backend.promote([SOURCE], limit=9)).count == 0
        assert (await backend.reclaim([SOURCE], limit=9)).recovered == ()
        assert await backend.prune(limit=9) == 0
        assert await backend.declare_stream(SOURCE, LEASE_US) is None
        assert await backend.get(STREAM, "nobody") is None
        assert (await backend.counts(STREAM)).queued == 0
    writer.undo()
    writer.close()


# --- nothing left behind ----------------------------------------------------------------------------------


def open_files(path: Path) -> list[apsw.Connection]:
    return [connection for connection in apsw.connections() if connection.filename == str(path)]


async def test_closing_leaves_no_thread_and_no_connection(url: str, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    backend = open_store(url)
    await backend.open()
    assert len(set(threading.enumerate()) - before) == 2
    await backend.append(batch("job"))
    await backend.get(STREAM, "job")
    await backend.close()
    assert set(threading.enumerate()) <= before
    assert open_files(tmp_path / "jobs.db") == []
    # The last to close tidies up: what is left is the file, and the empty one beside it for turns.
    assert {path.name for path in tmp_path.iterdir()} == {"jobs.db", "jobs.db-turn"}


async def test_what_was_submitted_before_closing_is_written(url: str) -> None:
    backend = open_store(url)
    await backend.open()
    append = asyncio.ensure_future(backend.append(batch("last")))
    await asyncio.sleep(0)
    await backend.close()
    assert [answer.id for answer in await append] == ["last"]
    await backend.open()
    assert await backend.get(STREAM, "last")
    await backend.close()


async def test_opening_twice_at_once_opens_once(url: str) -> None:
    before = set(threading.enumerate())
    backend = open_store(url)
    await asyncio.gather(backend.open(), backend.open())
    assert len(set(threading.enumerate()) - before) == 2
    await backend.append(batch("job"))
    await backend.close()
    assert set(threading.enumerate()) <= before


async def test_a_notice_of_a_newer_version_is_passed_over(backend: SqliteStore) -> None:
    heard: list[ControlMessage] = []
    stop = backend.listen(heard.append)

    def announce(transaction: Transaction) -> None:
        for content in ('["dance", ["queue", "work"], 7, 8]', '["pause", ["queue", "work"], false, 9]'):
            transaction.connection.change(
                "INSERT INTO headrace_notices (namespace, at_us, content) VALUES (?, ?, ?)",
                (transaction.namespace, transaction.now_us, content),
            )

    await backend._write(announce)
    await wait_until(lambda: heard)
    assert heard == [PauseNotice(STREAM, paused=False)]
    stop()


async def test_a_listener_does_not_hear_later_what_was_announced_before_it_came(
    backend: SqliteStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_store(url)
    await other.open()
    waiting = asyncio.ensure_future(
        backend.claim([SOURCE], consumer="worker-1", limit=1, suspects=0, wait=50)
    )
    await other.pause(STREAM, paused=True)
    offered: list[ControlMessage] = []
    tell = ControlListener.notify

    def note(listener: ControlListener, announcement: StoredNotice) -> None:
        tell(listener, announcement)
        offered.append(announcement.notice)

    monkeypatch.setattr(ControlListener, "notify", note)
    monkeypatch.setattr(
        "headrace.stores.sqlite.threads.waiters.NEWCOMER", 60.0
    )  # however busy the machine is
    heard: list[ControlMessage] = []
    stop = backend.listen(heard.append)
    await wait_until(lambda: offered, message="the reader comes to the pause")
    assert heard == []
    monkeypatch.setattr("headrace.stores.sqlite.threads.waiters.NEWCOMER", 0.0)
    await other.pause(STREAM, paused=False)
    await wait_until(lambda: heard)
    assert heard == [PauseNotice(STREAM, paused=False)]
    stop()
    backend.wake("worker-1")
    assert await waiting == []
    await other.close()


async def test_a_closed_backend_says_that_it_is_not_open(url: str) -> None:
    backend = open_store(url)
    with pytest.raises(BackendUnavailable, match="not open"):
        await backend.counts(STREAM)


async def test_whoever_waits_for_an_end_is_told_when_the_backend_closes(backend: SqliteStore) -> None:
    await backend.append(batch("job"))
    waiting = asyncio.ensure_future(backend.wait_for_end(STREAM, "job", None))
    await asyncio.sleep(0)
    await backend.close()
    with pytest.raises(BackendUnavailable):
        await waiting


def test_a_backend_whose_loop_is_gone_may_be_opened_on_another(url: str) -> None:
    before = set(threading.enumerate())
    backend = open_store(url)

    async def append(id: str, number: int) -> None:
        await backend.open()
        await backend.append(batch(id, number=number))

    asyncio.run(append("first", 1))
    asyncio.run(append("second", 2))

    async def close() -> int:
        await backend.open()
        queued = (await backend.counts(STREAM)).queued
        await backend.close()
        return queued

    assert asyncio.run(close()) == 2
    wait_until_sync(lambda: set(threading.enumerate()) <= before, message="the old threads have ended")


def test_a_backend_whose_loop_is_gone_may_be_closed_from_another(url: str) -> None:
    before = set(threading.enumerate())
    backend = open_store(url)
    asyncio.run(backend.open())
    assert set(threading.enumerate()) > before
    asyncio.run(backend.close())
    wait_until_sync(lambda: set(threading.enumerate()) <= before, message="its threads have ended")


def test_an_app_used_from_loop_after_loop_leaves_no_threads(url: str) -> None:
    before = set(threading.enumerate())
    app = App(url)

    @app.task(name="greet")
    async def greet() -> None: ...

    threads: list[int] = []
    for _ in range(3):
        asyncio.run(greet.enqueue())
        wait_until_sync(lambda: len(set(threading.enumerate()) - before) <= 3, message="the first ones ended")
        threads.append(len(set(threading.enumerate()) - before))
    assert threads == [2, 3, 3]  # with the app's own, which serves short-lived loops from the second on
    asyncio.run(app.close())
    wait_until_sync(lambda: set(threading.enumerate()) <= before, message="all have ended")


# --- turns ------------------------------------------------------------------------------------------------


def test_the_second_writer_waits_for_its_turn(tmp_path: Path) -> None:
    first, second = FairWriteLock(tmp_path / "jobs.db"), FairWriteLock(tmp_path / "jobs.db")
    assert first.enter()
    passed = threading.Event()

    def pass_through() -> None:
        if second.enter():
            passed.set()

    thread = threading.Thread(target=pass_through)
    thread.start()
    assert not passed.wait(0.05)
    first.leave()
    assert passed.wait(5)
    thread.join()
    for lock in (first, second):
        lock.close()


def test_within_its_turn_a_writer_need_not_pass_again(tmp_path: Path) -> None:
    lock = FairWriteLock(tmp_path / "jobs.db")
    assert lock.enter()
    lock.leave()
    assert not lock.enter()
    lock.close()


def test_nobody_waits_where_there_can_be_no_turns(tmp_path: Path) -> None:
    lock = FairWriteLock(tmp_path / "missing" / "jobs.db")
    assert lock.enter()
    lock.leave()
    lock.close()


def test_nobody_waits_for_ever_for_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.stores.sqlite.connection.fair_write_lock.PATIENCE", 0.01)
    stuck, other = FairWriteLock(tmp_path / "jobs.db"), FairWriteLock(tmp_path / "jobs.db")
    assert stuck.enter()
    assert not other.enter()
    stuck.leave()
    assert not other.enter()  # and not again soon
    for lock in (stuck, other):
        lock.close()
