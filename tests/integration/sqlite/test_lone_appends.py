"""A single append to a SQLite store is written on the event loop, if that is quick and no other step
waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import DONE, Settlement
from headrace.core.records.answers import Answer
from headrace.core.runtime.clock import SECOND, SystemClock
from headrace.core.store import Store
from headrace.stores import open_store
from headrace.stores.sqlite.store import SqliteStore
from tests.support.waiting import wait_until

STREAM = Stream("queue", "work")
SOURCE = STREAM

_numbers = count(1)


class WatchedDisk(apsw.VFS):
    """Knows which thread last waited for it, takes its time, and fails when it is told to."""

    def __init__(self, below: str) -> None:
        super().__init__("headrace-watched", base="", makedefault=True)
        self.below = below
        self.synced_by: int | None = None
        self.seconds = 0.0
        self.failing = False

    def xOpen(  # noqa: N802
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return WatchedFile(self, name, flags)


class WatchedFile(apsw.VFSFile):
    def __init__(self, disk: WatchedDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(disk.below, name, flags)
        self._disk = disk

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.synced_by = threading.get_ident()
        time.sleep(self._disk.seconds)  # a slow disk
        if self._disk.failing:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedDisk]:
    monkeypatch.setattr("headrace.stores.sqlite.threads.writer.SHORT", 1)  # also on a busy machine
    default = apsw.vfs_names()[0]
    disk = WatchedDisk(default)
    yield disk
    disk.unregister()
    apsw.set_default_vfs(default)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def backend(disk: WatchedDisk, path: Path) -> AsyncIterator[Store]:
    backend = open_store(f"sqlite:///{path}")
    await backend.open()
    await backend.declare_stream(SOURCE, 30 * SECOND)
    yield backend
    await backend.close()


def batch() -> Batch:
    return Batch(STREAM, "producer", next(_numbers), [Message(new_id(), "greet", b"hello")])


async def append_until_the_event_loop_writes(backend: Store, disk: WatchedDisk) -> None:
    async def written_here() -> bool:
        await backend.append(batch())
        return disk.synced_by == threading.get_ident()

    await wait_until(written_here)


async def test_on_a_quick_disk_it_is_written_on_the_event_loop(backend: Store, disk: WatchedDisk) -> None:
    await append_until_the_event_loop_writes(backend, disk)


async def test_on_a_slow_disk_the_event_loop_does_not_wait(
    backend: Store, disk: WatchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append_until_the_event_loop_writes(backend, disk)
    monkeypatch.setattr("headrace.stores.sqlite.threads.writer.SHORT", 0.05)
    disk.seconds = 0.5
    await backend.append(batch())  # shows that it is slow
    await backend.append(batch())
    assert disk.synced_by != threading.get_ident()


async def test_others_on_the_event_loop_have_a_turn_between_two(backend: Store, disk: WatchedDisk) -> None:
    await append_until_the_event_loop_writes(backend, disk)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    for _ in range(10):
        await backend.append(batch())
    other.cancel()
    assert turns >= 10


async def test_while_another_process_holds_the_lock_the_event_loop_goes_on(
    backend: Store, disk: WatchedDisk, path: Path
) -> None:
    await append_until_the_event_loop_writes(backend, disk)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    appending = asyncio.create_task(backend.append(batch()))
    await asyncio.sleep(0.05)  # what must not happen would happen meanwhile
    assert not appending.done()
    other.execute("ROLLBACK")
    other.close()
    (answer,) = await asyncio.wait_for(appending, 10)
    assert answer.verdict == "accepted"


async def test_a_commit_that_the_disk_did_not_confirm_may_be_repeated(
    backend: Store, disk: WatchedDisk
) -> None:
    await append_until_the_event_loop_writes(backend, disk)
    lost = batch()
    disk.failing = True
    with pytest.raises(BackendUnavailable, match="error of the disk") as caught:
        await backend.append(lost)
    assert caught.value.uncertain
    disk.failing = False
    assert await backend.append(lost) == [Answer(lost.messages[0].id)]
    ids = [record.id for record in await backend.messages(STREAM, limit=1000)]
    assert ids.count(lost.messages[0].id) == 1


async def test_a_repeat_is_recognised_when_the_message_has_run(backend: Store, disk: WatchedDisk) -> None:
    await append_until_the_event_loop_writes(backend, disk)
    sent = batch()
    answers = await backend.append(sent)
    claims = await backend.claim([SOURCE], consumer="worker", limit=1000, suspects=0, wait=0)
    await backend.settle([Settlement(claim, DONE) for claim in claims])
    assert await backend.append(sent) == answers
    assert (await backend.counts(STREAM)).queued == 0


class Interrupted(BaseException):
    """What a handler of a signal raises."""


class InterruptingClock(SystemClock):
    """Once armed it is looked at in the moment in which a signal arrives."""

    armed = False

    def now_us(self) -> int:
        if self.armed and threading.current_thread() is threading.main_thread():
            raise Interrupted
        return super().now_us()


async def test_an_interrupted_one_holds_no_lock(disk: WatchedDisk, path: Path) -> None:
    clock = InterruptingClock()
    backend = SqliteStore(path, namespace="headrace", synchronous="FULL", clock=clock)
    await backend.open()
    await append_until_the_event_loop_writes(backend, disk)
    clock.armed = True
    with pytest.raises(Interrupted):
        await backend.append(batch())
    clock.armed = False
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    other.execute("ROLLBACK")
    other.close()
    await backend.append(batch())
    await backend.close()
