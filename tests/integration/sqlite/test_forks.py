"""A process that has the file open is forked: what either of the two writes afterwards is there."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.stores import open_store
from headrace.stores.sqlite.connection import forks
from headrace.stores.sqlite.connection.connection import Connection

STREAM = Stream("queue", "work")


async def append(backend: Any, producer: str, number: int = 1) -> None:
    await backend.append(Batch(STREAM, producer, number, [Message(new_id(), "greet", b"")]))


def test_what_a_child_writes_outlives_the_parents_end(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    backend: Any = open_store(url)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(backend.open())
    loop.run_until_complete(append(backend, "parent"))
    told, tell = os.pipe()
    heard, answer = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(asyncio.run(_write_around_the_parents_end(backend, tell, heard)))
    os.read(told, 1)
    # No other process seems to have the file open, so the close would delete the write-ahead log.
    loop.run_until_complete(backend.close())
    os.write(answer, b".")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loop.run_until_complete(backend.open())
    assert loop.run_until_complete(backend.counts(STREAM)).queued == 3
    loop.run_until_complete(backend.close())
    loop.close()
    for end in (told, tell, heard, answer):
        os.close(end)


async def _write_around_the_parents_end(backend: Any, tell: int, heard: int) -> int:
    await backend.open()
    await append(backend, "child")
    os.write(tell, b".")
    os.read(heard, 1)
    await append(backend, "child", 2)
    return 0  # the process ends without closing the store, like a killed one


def test_a_fork_waits_for_what_is_under_way(tmp_path: Path) -> None:
    connection = Connection(tmp_path / "jobs.db")
    begun, ended = threading.Event(), threading.Event()

    def write() -> None:
        with connection.in_use:
            connection.open()
            connection.begin()
            begun.set()
            connection.run("CREATE TABLE things (id)")
            ended.wait(0.2)  # so long that the fork is asked for meanwhile
            connection.commit()
            ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if ended.is_set() and connection._handle is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.join()
    connection.open()
    assert connection.rows("SELECT * FROM things") == []
    connection.close()


def test_a_file_that_stayed_open_over_a_fork_is_not_used_in_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "PATIENCE", 0.01)
    connection = Connection(tmp_path / "jobs.db")
    with connection.in_use:  # for longer than a fork waits
        connection.open()
        child = os.fork()
        if child == 0:
            os._exit(_refused(tmp_path / "jobs.db"))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert connection.value("SELECT 1") == 1
        connection.close()


def _refused(path: Path) -> int:
    try:
        Connection(path).open()
    except BackendUnavailable as error:
        return 0 if "forked" in str(error) else 1
    return 2
