"""Files of other versions: older ones are brought up to date, newer ones are refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import Batch, Message, Stream, group_stream
from headrace.core.rules.lease import Lease
from headrace.stores import open_store
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.connection.schema import SCRIPTS, bring_up_to_date
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics.publish import publish
from headrace.stores.sqlite.verbs.claim import claim
from headrace.stores.sqlite.verbs.looking import count
from headrace.stores.sqlite.verbs.steering import read_lease


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    connection = Connection(path)
    connection.open()
    yield connection
    connection.close()


def version_of(connection: Connection) -> int:
    version: int = connection.value("SELECT version FROM headrace_schema")
    return version


def test_a_write_reaches_the_disk_also_on_macos(connection: Connection) -> None:
    assert connection.value("PRAGMA fullfsync") == 1


def test_a_new_file_gets_the_latest_schema(connection: Connection) -> None:
    bring_up_to_date(connection)
    assert version_of(connection) == len(SCRIPTS)
    assert connection.value("SELECT count(*) FROM headrace_messages") == 0


def test_a_file_that_is_up_to_date_is_left_alone(connection: Connection) -> None:
    bring_up_to_date(connection)
    before = connection.value("PRAGMA schema_version")
    bring_up_to_date(connection)
    assert connection.value("PRAGMA schema_version") == before


def test_an_older_file_goes_through_the_steps_it_lacks(connection: Connection) -> None:
    bring_up_to_date(connection, SCRIPTS)
    connection.run(
        "INSERT INTO headrace_streams (namespace, kind, name, established) VALUES ('n', 'k', 's', 1)"
    )
    later = (
        *SCRIPTS,
        "ALTER TABLE headrace_streams ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'",
        "CREATE TABLE headrace_more (id INTEGER) STRICT; UPDATE headrace_streams SET colour = 'red'",
    )
    bring_up_to_date(connection, later)
    assert version_of(connection) == len(later)
    assert connection.value("SELECT colour FROM headrace_streams WHERE name = 's'") == "red"
    assert connection.value("SELECT count(*) FROM headrace_more") == 0


def test_renaming_keeps_the_deferred_keys_and_drops_old_control_messages(connection: Connection) -> None:
    bring_up_to_date(connection, SCRIPTS[:10])
    connection.run(
        "INSERT INTO headrace_deferred_keys (stream, key, number, passed, hungry) VALUES (1, 'k', 5, 2, 1)"
    )
    connection.run("INSERT INTO headrace_orders (namespace, at_us, content) VALUES ('n', 1, '[]')")
    bring_up_to_date(connection)
    assert connection.row("SELECT number, passed, drawable FROM headrace_deferred_keys") == (5, 2, 1)
    assert connection.value("SELECT count(*) FROM headrace_notices") == 0


def test_a_file_of_the_first_version_keeps_its_leases(connection: Connection) -> None:
    bring_up_to_date(connection, SCRIPTS[:1])
    connection.run(
        "INSERT INTO headrace_streams (namespace, kind, name, established, lease_us)"
        " VALUES ('n', 'queue', 's', 1, 42)"
    )
    bring_up_to_date(connection)
    assert read_lease(connection, "n", Stream("queue", "s")) == Lease(42)
    assert connection.value("SELECT count(*) FROM headrace_progress") == 0


def test_a_file_from_before_topics_keeps_its_jobs_and_takes_events(connection: Connection) -> None:
    bring_up_to_date(connection, SCRIPTS[:3])
    connection.run(
        "INSERT INTO headrace_streams (namespace, kind, name, established, queued)"
        " VALUES ('n', 'queue', 's', 1, 1);"
        "INSERT INTO headrace_messages (stream, place, at_us, since_us, claim, worker, lane, priority,"
        " expires_us, id, task, body) VALUES (1, 5, 7, 7, 1, 1, 5, 1, 0, 'job', 'greet', x'01')"
    )
    bring_up_to_date(connection)
    assert count(connection, "n", Stream("queue", "s"), 8).queued == 1
    connection.begin()
    transaction = Transaction(connection, namespace="n", now_us=8, waited_for=False)
    publish(transaction, Batch(Stream("topic", "t"), "producer", 1, [Message("e", "placed", b"")]))
    sources = [Stream("queue", "s"), group_stream("t", "g")]
    claims = claim(transaction, ClaimQuery(sources, "worker-1", 9, 1, 1))
    transaction.finish()
    connection.commit()
    assert {claim.id for claim in claims} == {"job", "e"}


def test_a_file_with_a_version_but_no_tables_yet_is_version_zero(connection: Connection) -> None:
    connection.run("CREATE TABLE headrace_schema (version INTEGER NOT NULL) STRICT")
    bring_up_to_date(connection)
    assert version_of(connection) == len(SCRIPTS)


def test_a_step_that_fails_leaves_the_file_as_it_was(connection: Connection) -> None:
    bring_up_to_date(connection)
    broken = (*SCRIPTS, "CREATE TABLE headrace_more (id INTEGER); SELECT nonsense")
    with pytest.raises(apsw.SQLError):
        bring_up_to_date(connection, broken)
    assert version_of(connection) == len(SCRIPTS)
    assert not connection.value("SELECT count(*) FROM sqlite_schema WHERE name = 'headrace_more'")


def test_the_tables_of_an_application_stay_as_they_are(connection: Connection) -> None:
    connection.run("CREATE TABLE messages (id); INSERT INTO messages VALUES (7); PRAGMA user_version = 42")
    bring_up_to_date(connection)
    assert connection.value("SELECT id FROM messages") == 7
    assert connection.value("PRAGMA user_version") == 42


async def test_a_file_from_the_future_is_refused(path: Path, connection: Connection) -> None:
    bring_up_to_date(connection)
    connection.run("UPDATE headrace_schema SET version = 99")
    with pytest.raises(ConfigurationError, match="upgrade headrace"):
        await open_store(f"sqlite:///{path}").open()


async def test_a_backend_that_could_not_open_leaves_no_thread(path: Path, connection: Connection) -> None:
    bring_up_to_date(connection)
    connection.run("UPDATE headrace_schema SET version = 99")
    before = set(threading.enumerate())
    with pytest.raises(ConfigurationError):
        await open_store(f"sqlite:///{path}").open()
    assert set(threading.enumerate()) <= before


async def test_a_sqlite_with_the_wal_bug_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(ConfigurationError, match="--upgrade apsw"):
        await open_store(f"sqlite:///{path}").open()
