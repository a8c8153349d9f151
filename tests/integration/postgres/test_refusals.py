"""What the server refuses, and how the store says it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace import App
from headrace.core.errors import BackendUnavailable, ChangesRefused
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message
from headrace.core.runtime.clock import SystemClock
from headrace.stores import open_store
from headrace.stores.outbox.sqlite_outbox import SqliteOutbox
from headrace.stores.postgres.schema.grants import grants_for
from headrace.stores.postgres.store import PostgresStore
from tests.integration.support.postgres_steps import (
    QUEUE,
    batch,
    claimed,
    execute,
    new_name,
    opened,
)
from tests.support.postgres_server import NOBODY, PostgresServer, missing, nobodys_folder
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("setting", "words"),
    [("default_transaction_read_only=on", "read-only"), ("statement_timeout=200", "took too long")],
)
async def test_what_the_server_refuses_is_an_error_that_may_pass(
    server: PostgresServer, setting: str, words: str
) -> None:
    async with opened(server.url):
        pass
    async with (
        opened(f"{server.url}?options=-c%20{setting.replace('=', '%3D')}") as store,
        await psycopg.AsyncConnection.connect(server.url) as locking,
    ):
        await locking.execute("LOCK TABLE headrace.messages IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(BackendUnavailable, match=words) as caught:
            await store.append(batch("job"))
        assert (caught.value.transient, caught.value.uncertain) == (True, False)


async def test_too_many_connections_are_an_error_that_may_pass(server: PostgresServer) -> None:
    async with opened(server.url):
        pass
    role = new_name("crowded")
    grants = "; ".join(grants_for("headrace", role))
    await execute(server, f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1; {grants}")
    with pytest.raises(BackendUnavailable, match="no connection left") as caught:
        await open_store(server.url_as(role)).open()
    assert caught.value.transient


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A folder of the server's user with room for 8 MiB."""
    folder = nobodys_folder("headrace-small-")
    options = f"size=8m,uid={NOBODY},gid={NOBODY},mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        missing("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


async def test_a_full_disk_refuses_new_messages_and_nothing_is_lost(small_disk: Path) -> None:
    with PostgresServer() as server:
        async with opened(server.url) as store:
            await execute(server, f"CREATE TABLESPACE small LOCATION '{small_disk}'")
            await execute(server, "ALTER TABLE headrace.messages SET TABLESPACE small")
            stored: list[str] = []
            with pytest.raises(ChangesRefused, match="no room on its disk") as caught:
                await fill(store, stored)
            assert not caught.value.uncertain
            assert (await store.counts(QUEUE)).queued == len(stored) > 10
            await execute(server, "ALTER TABLE headrace.messages SET TABLESPACE pg_default")
            claims: list[str] = []
            while some := await claimed(store, limit=100):
                claims += some
            assert claims == stored


async def fill(store: PostgresStore, stored: list[str]) -> None:
    """Append large messages until one is refused."""
    for number in range(1, 1000):
        id, body = f"job-{number:04}", os.urandom(100_000)
        await store.append(Batch(QUEUE, "producer", number, [Message(id, "greet", body)]))
        stored.append(id)


async def test_what_the_server_can_never_store_holds_up_no_others_in_an_outbox(
    server: PostgresServer, tmp_path: Path
) -> None:
    """PostgreSQL has no text with NUL, and the outbox of another database takes it."""
    outbox = SqliteOutbox(f"sqlite:///{tmp_path}/shop.db", namespace="headrace", clock=SystemClock())
    await outbox.apply()
    await outbox.close()
    app, seen = App(server.url, namespace=new_id(), outbox=outbox.url), list[str]()

    @app.task(name="note")
    async def note(text: str) -> None:
        seen.append(text)

    @app.topic("orders", str).subscribe(group="billing", start="beginning")
    async def bill(text: str) -> None:
        seen.append(text)

    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    connection.execute("BEGIN")
    app.sync.enqueue(note.with_(unique_key="a\0b").call("odd"), transaction=connection)
    app.sync.publish("orders", "odd", key="a\0b", transaction=connection)
    app.sync.enqueue(note.call("job"), transaction=connection)
    app.sync.publish("orders", "event", transaction=connection)
    connection.execute("COMMIT")
    connection.close()
    async with app.worker():
        await wait_until(lambda: sorted(seen) == ["event", "job"], timeout=30)
        letters = [*await app.admin.dead()]
    assert [(letter.reason, b"odd" in letter.payload) for letter in letters] == [("refused", True)] * 2
    await app.close()
