"""A commit of one process wakes those that wait in others, through the file system."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.core.store import Store
from headrace.stores import open_store
from headrace.stores.sqlite.store import SqliteStore
from headrace.stores.sqlite.threads import inotify, reader
from tests.support.waiting import wait_until

STREAM = Stream("queue", "work")
SOURCE = STREAM

#: Seconds: so long that only a signal ends a wait, and the time within which a signal has arrived.
EVER, SOON = 3600.0, 10.0

linux = pytest.mark.skipif(not inotify.AVAILABLE, reason="only Linux tells of closed files")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few that whatever is noticed was signalled."""
    monkeypatch.setattr(reader, "LOOK_EVERY", EVER)


async def opened(path: Path) -> Store:
    backend = open_store(f"sqlite:///{path}")
    await backend.open()
    await backend.declare_stream(SOURCE, 30 * SECOND)
    return backend


@pytest.fixture
async def ours(path: Path) -> AsyncIterator[Store]:
    backend = await opened(path)
    yield backend
    await backend.close()


@pytest.fixture
async def theirs(path: Path) -> AsyncIterator[Store]:
    """A second session on the file, as another process has it."""
    backend = await opened(path)
    yield backend
    await backend.close()


def batch(number: int = 1, stream: Stream = STREAM) -> Batch:
    return Batch(stream, "producer", number, [Message(new_id(), "greet", b"hello")])


def claiming(backend: Store, wait: float = EVER) -> asyncio.Task[list[str]]:
    async def claim() -> list[str]:
        claims = await backend.claim([SOURCE], consumer="worker", limit=10, suspects=1, wait=wait)
        return [claim.id for claim in claims]

    return asyncio.create_task(claim())


@linux
@pytest.mark.usefixtures("few_looks")
async def test_who_waits_for_a_message_is_woken_by_the_commit_of_another(ours: Store, theirs: Store) -> None:
    for number in range(1, 6):
        waiting = claiming(ours)
        await until_it_waits(ours)
        [answer] = await theirs.append(batch(number))
        assert await asyncio.wait_for(waiting, SOON) == [answer.id]


@linux
@pytest.mark.usefixtures("few_looks")
async def test_who_waits_for_an_end_is_woken_by_the_commit_of_another(ours: Store, theirs: Store) -> None:
    [answer] = await theirs.append(batch())
    waiting = asyncio.create_task(ours.wait_for_end(STREAM, answer.id, EVER))
    await until_it_waits(ours)
    await theirs.cancel(STREAM, answer.id, ttl_us=SECOND)
    record = await asyncio.wait_for(waiting, SOON)
    assert record is not None
    assert record.status is JobStatus.CANCELLED


@linux
@pytest.mark.usefixtures("few_looks")
async def test_many_commits_in_a_row_hide_none_from_who_waits(ours: Store, theirs: Store) -> None:
    waiting = claiming(ours)
    await until_it_waits(ours)
    for number in range(1, 51):
        await theirs.append(batch(number, Stream("queue", "elsewhere")))
    [answer] = await theirs.append(batch())
    assert await asyncio.wait_for(waiting, SOON) == [answer.id]


async def test_where_the_system_tells_nothing_looks_must_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify, "AVAILABLE", False)
    ours, theirs = await opened(path), await opened(path)
    waiting = claiming(ours)
    [answer] = await theirs.append(batch())
    assert await asyncio.wait_for(waiting, SOON) == [answer.id]
    await ours.close()
    await theirs.close()


async def test_where_no_more_can_be_watched_looks_must_do(
    ours: Store, theirs: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(inotify.Inotify, "__init__", refuse)
    waiting = claiming(ours)
    [answer] = await theirs.append(batch())
    assert await asyncio.wait_for(waiting, SOON) == [answer.id]


@pytest.mark.parametrize("kind", ["symbolic link", "folder", "pipe"])
async def test_whatever_lies_where_the_file_should_be_is_left_alone(path: Path, kind: str) -> None:
    turn, target = path.with_name("jobs.db-turn"), path.with_name("target")
    if kind == "symbolic link":
        turn.symlink_to(target)
    elif kind == "folder":
        turn.mkdir()
    else:
        os.mkfifo(turn)
    ours, theirs = await opened(path), await opened(path)
    waiting = claiming(ours)
    [answer] = await theirs.append(batch())
    assert await asyncio.wait_for(waiting, SOON) == [answer.id]
    await ours.close()
    await theirs.close()
    assert not target.exists()


@linux
@pytest.mark.usefixtures("few_looks")
async def test_one_file_under_two_names_is_one(path: Path, theirs: Store) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    ours = await opened(link)
    waiting = claiming(ours)
    await until_it_waits(ours)
    [answer] = await theirs.append(batch())
    assert await asyncio.wait_for(waiting, SOON) == [answer.id]
    await ours.close()


@linux
async def test_nothing_is_left_open(path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        backend = await opened(path)
        await claiming(backend, wait=0.01)
        await backend.close()
    assert len(os.listdir("/proc/self/fd")) <= len(before)


async def until_it_waits(backend: Store) -> None:
    """The look that goes before every wait is over: only a signal can end it."""
    assert isinstance(backend, SqliteStore)
    session = backend._open_file
    assert session is not None
    await wait_until(lambda: session._signals._armed and session.waiters.is_anything_awaited())
    for _ in range(2):
        await backend.counts(STREAM)  # in the thread that looks, which looks when it has answered
