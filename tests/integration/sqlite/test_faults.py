"""A SQLite store under disks that are full, files that are locked or gone, processes that die: words that
help, nothing that was acknowledged lost, and work that goes on without a restart."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import DONE, Settlement, Verdict
from headrace.core.records.answers import Renewal
from headrace.core.records.control import ControlMessage, PauseNotice
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.core.store import Store
from headrace.stores import open_store
from headrace.stores.sqlite.connection import connection as connections
from headrace.stores.sqlite.connection.connection import JOURNAL_SIZE_LIMIT
from headrace.stores.sqlite.store import SqliteStore
from tests.support.servers import missing
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
STREAM = Stream("queue", "work")
SOURCE = STREAM
LEASE_US = 30 * SECOND

_numbers = count(1)


def batch(*messages: Message) -> Batch:
    return Batch(STREAM, "producer", next(_numbers), list(messages))


def message(size: int = 100) -> Message:
    return Message(new_id(), "greet", os.urandom(size))


async def append(backend: Store, size: int = 100) -> str:
    (answer,) = await backend.append(batch(message(size)))
    assert answer.verdict == "accepted"
    return answer.id


async def append_until_refused(
    backend: Store, size: int, at_once: int = 1
) -> tuple[list[str], BackendUnavailable]:
    accepted: list[str] = []
    for _ in range(10_000):
        try:
            answers = await backend.append(batch(*(message(size) for _ in range(at_once))))
            accepted += [answer.id for answer in answers]
        except BackendUnavailable as error:
            return accepted, error
    raise AssertionError("the disk never got full")


async def claim(backend: Store, limit: int = 10_000) -> list[Claim]:
    return await backend.claim([SOURCE], consumer="worker-1", limit=limit, suspects=1, wait=0)


async def queued(backend: Store) -> set[str]:
    ids: set[str] = set()
    cursor: str | None = None
    while True:
        page = await backend.messages(STREAM, status=JobStatus.QUEUED, cursor=cursor)
        ids |= {record.id for record in page}
        cursor = page.cursor
        if cursor is None:
            return ids


async def opened(path: Path) -> SqliteStore:
    backend = open_store(f"sqlite:///{path}")
    assert isinstance(backend, SqliteStore)
    await backend.open()
    await backend.declare_stream(SOURCE, LEASE_US)
    return backend


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def backend(path: Path) -> AsyncIterator[SqliteStore]:
    backend = await opened(path)
    yield backend
    await backend.close()


def is_sound(path: Path) -> bool:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


# --- a full disk ------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk() -> Iterator[Path]:
    with mounted("4m") as folder:
        yield folder


@pytest.fixture
def disk() -> Iterator[Path]:
    with mounted("32m") as folder:
        yield folder


@contextlib.contextmanager
def mounted(size: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="headrace-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        # There is no other way to a disk that is really full.
        missing("only root may mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


async def test_a_full_disk_refuses_and_loses_nothing(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1024 * 1024))
    backend = await opened(small_disk / "jobs.db")
    accepted, error = await append_until_refused(backend, 20_000)
    assert "full" in str(error)
    assert "make room" in str(error)
    assert not error.uncertain
    assert await queued(backend) == set(accepted)
    ballast.unlink()
    accepted.append(await append(backend, 20_000))
    assert {each.id for each in await claim(backend)} == set(accepted)
    await backend.close()
    assert is_sound(small_disk / "jobs.db")


@pytest.mark.parametrize("size", [100, 20_000])
async def test_on_a_full_disk_what_is_stored_can_be_run(small_disk: Path, size: int) -> None:
    """What new messages leave free is enough to write how the others end."""
    backend = await opened(small_disk / "jobs.db")
    for _ in range(2):
        accepted, error = await append_until_refused(backend, size, at_once=50 if size < 1000 else 1)
        assert "make room" in str(error)
        ended = 0
        while claims := await claim(backend, 100):
            verdicts = await backend.settle([Settlement(each, DONE) for each in claims])
            ended += verdicts.count(Verdict.KEPT)
        assert ended == len(accepted) > 0
    await backend.close()
    assert is_sound(small_disk / "jobs.db")


def fill(folder: Path) -> None:
    """What another program may do at any moment: take all that is left of the disk."""
    with contextlib.suppress(OSError), (folder / "other").open("ab", buffering=0) as other:
        while True:
            other.write(bytes(4096))


@pytest.mark.parametrize("number", [10, 300, 3000])
async def test_what_is_stored_is_run_when_another_program_fills_the_disk(disk: Path, number: int) -> None:
    backend = await opened(disk / "jobs.db")
    await claim(backend)
    for _ in range(number // 10):
        await backend.append(batch(*(message() for _ in range(10))))
    fill(disk)
    ended = 0
    while claims := await claim(backend, 100):
        fill(disk)
        verdicts = await backend.settle([Settlement(each, DONE) for each in claims])
        ended += verdicts.count(Verdict.KEPT)
        fill(disk)
    assert ended == number
    await backend.close()
    assert is_sound(disk / "jobs.db")


async def test_new_messages_do_not_use_what_is_kept_for_the_stored_ones(disk: Path) -> None:
    backend = await opened(disk / "jobs.db")
    await claim(backend)
    kept = (disk / "jobs.db-reserve").stat().st_size
    fill(disk)
    with pytest.raises(BackendUnavailable, match="make room"):
        await append(backend)
    assert (disk / "jobs.db-reserve").stat().st_size == kept > 0
    (disk / "other").unlink()
    await backend.close()
    assert not (disk / "jobs.db-reserve").exists()


async def test_a_file_that_may_not_grow_refuses_and_can_be_drained(backend: SqliteStore, path: Path) -> None:
    await backend._write(lambda transaction: transaction.connection.run("PRAGMA max_page_count = 100"))
    accepted, error = await append_until_refused(backend, 5_000)
    assert "make room" in str(error)
    assert not error.transient
    claims = await claim(backend)
    assert {each.id for each in claims} == set(accepted)
    verdicts = await backend.settle([Settlement(each, DONE) for each in claims])
    assert set(verdicts) == {Verdict.KEPT}
    await append(backend, 5_000)


async def test_one_large_append_does_not_spoil_small_ones_when_it_is_full(backend: SqliteStore) -> None:
    await backend._write(lambda transaction: transaction.connection.run("PRAGMA max_page_count = 60"))
    large, small = batch(message(1_000_000)), Batch(STREAM, "another", 1, [message()])
    refused, taken = await asyncio.gather(
        backend.append(large), backend.append(small), return_exceptions=True
    )
    assert isinstance(refused, BackendUnavailable)
    assert not isinstance(taken, BaseException)
    assert await queued(backend) == {small.messages[0].id}


# --- a failing disk ---------------------------------------------------------------------------------------


class FaultyDisk(apsw.VFS):
    """Passes everything on, until it is told to fail when files are synchronised."""

    def __init__(self, below: str) -> None:
        super().__init__("headrace-faulty", base="", makedefault=True)
        self.below = below
        self.failing = False

    def xOpen(  # noqa: N802
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return FaultyFile(self, name, flags)


class FaultyFile(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(disk.below, name, flags)
        self._disk = disk

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.failing:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)


@pytest.fixture
def faulty_disk() -> Iterator[FaultyDisk]:
    default = apsw.vfs_names()[0]
    disk = FaultyDisk(default)
    yield disk
    disk.unregister()
    apsw.set_default_vfs(default)


async def test_a_commit_that_the_disk_did_not_confirm_is_uncertain_and_may_be_repeated(
    faulty_disk: FaultyDisk, path: Path
) -> None:
    backend = await opened(path)
    first = await append(backend)
    lost = batch(message())
    faulty_disk.failing = True
    with pytest.raises(BackendUnavailable, match="error of the disk") as caught:
        await backend.append(lost)
    assert caught.value.uncertain
    faulty_disk.failing = False
    (answer,) = await backend.append(lost)
    assert answer.verdict == "accepted"
    assert await queued(backend) == {first, lost.messages[0].id}
    await backend.close()


# --- files that may not be written ------------------------------------------------------------------------


async def test_a_read_only_file_is_refused_with_advice_and_used_once_it_may_be(nobodys_folder: Path) -> None:
    path = nobodys_folder / "jobs.db"
    backend = await opened(path)
    first = await append(backend)
    await backend.close()
    path.chmod(0o444)
    await backend.open()
    late = batch(message())
    assert await queued(backend) == {first}
    with pytest.raises(BackendUnavailable, match="right to write"):
        await backend.append(late)
    assert await queued(backend) == {first}
    path.chmod(0o644)

    async def taken() -> bool:
        # The log made beside a read-only file is read-only too, so the first try may only replace that.
        with contextlib.suppress(BackendUnavailable):
            return bool(await backend.append(late))
        return False

    await wait_until(taken)
    assert await queued(backend) == {first, late.messages[0].id}
    await backend.close()


async def test_a_read_only_folder_is_refused_when_the_store_is_opened(nobodys_folder: Path) -> None:
    path = nobodys_folder / "jobs.db"
    nobodys_folder.chmod(0o555)
    backend = open_store(f"sqlite:///{path}")
    with pytest.raises(BackendUnavailable, match="may write in it"):
        await backend.open()
    nobodys_folder.chmod(0o755)
    await backend.open()
    await append(backend)
    await backend.close()


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(BackendUnavailable, match="is no SQLite database"):
        await open_store(f"sqlite:///{path}").open()


async def test_a_damaged_file_is_told(path: Path) -> None:
    backend = await opened(path)
    for _ in range(50):
        await append(backend, 2000)
    await backend.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with pytest.raises(BackendUnavailable, match="is damaged"):
        await opened(path)
    await backend.close()


# --- locks ------------------------------------------------------------------------------------------------

HOLD_THE_LOCK = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
print("free", flush=True)
"""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """By another process."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin
    assert holder.stdout
    try:
        assert holder.stdout.readline() == b"locked\n"
        yield
    finally:
        holder.communicate(b"\n")


async def test_a_file_that_stays_locked_is_unavailable_for_writing_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_TIMEOUT", 100)
    backend = await opened(path)
    first, late = await append(backend), batch(message())
    with locked(path):
        with pytest.raises(BackendUnavailable, match="locked by another process") as caught:
            await backend.append(late)
        assert caught.value.transient
        assert not caught.value.uncertain
        assert await queued(backend) == {first}
        assert (await backend.counts(STREAM)).queued == 1
    await backend.append(late)
    assert await queued(backend) == {first, late.messages[0].id}
    await backend.close()


async def test_a_renewal_does_not_wait_for_ever(backend: SqliteStore, path: Path) -> None:
    await append(backend)
    claims = await claim(backend)
    leases = backend.lease_keeper()
    assert await leases.renew(claims) == [Renewal.KEPT]
    with locked(path), pytest.raises(BackendUnavailable, match="locked"):
        await leases.renew(claims)
    assert await leases.renew(claims) == [Renewal.KEPT]
    await leases.close()


async def test_a_file_locked_while_it_is_opened_is_unavailable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_TIMEOUT", 100)
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (id)")
    backend = open_store(f"sqlite:///{path}")
    with locked(path), pytest.raises(BackendUnavailable, match="locked"):
        await backend.open()
    connection.close()
    await backend.open()
    await append(backend)
    await backend.close()


OPEN_AND_APPEND = """
import asyncio, sys
from tests.integration.sqlite.test_faults import append, opened
from pathlib import Path

async def main():
    sys.stdin.readline()
    backend = await opened(Path(sys.argv[1]))
    print(await append(backend), flush=True)
    await backend.close()

print("ready", flush=True)
asyncio.run(main())
"""


def start_many(script: str, path: Path, number: int) -> list[subprocess.Popen[bytes]]:
    return [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(number)
    ]


async def test_many_processes_may_open_a_new_file_at_once(path: Path) -> None:
    # Each has a producer of the same name and numbers of its own, hence the answers may name one another's.
    processes = start_many(OPEN_AND_APPEND, path, 5)
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in processes:
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 0, output
    assert is_sound(path)


# --- death ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [1, 300, 3000])
async def test_what_a_killed_process_acknowledged_is_there(path: Path, lines: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.programs.sqlite_writer", f"sqlite:///{path}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    said = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    # The last line may be torn.
    words = [line.split() for line in b"".join(said).splitlines() + rest.splitlines()[:-1]]
    assert is_sound(path)
    backend = await opened(path)
    for sign, id in words:
        record = await backend.get(STREAM, id.decode())
        assert record is not None
        if sign == b"-":
            assert (record.status, record.result) == (JobStatus.SUCCEEDED, b"done")
    await backend.close()


async def test_a_process_that_dies_with_the_write_lock_blocks_nobody(
    backend: SqliteStore, path: Path
) -> None:
    first = await append(backend)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout
    assert holder.stdout.readline() == b"locked\n"
    waiting = asyncio.ensure_future(append(backend))
    await asyncio.sleep(0)
    holder.kill()
    holder.communicate()
    assert await queued(backend) >= {first}
    assert await waiting in await queued(backend)


# --- long readers -----------------------------------------------------------------------------------------


async def test_a_long_reader_holds_up_nobody_and_the_log_shrinks_when_it_is_gone(
    backend: SqliteStore, path: Path
) -> None:
    log = path.with_name("jobs.db-wal")
    await append(backend)
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM headrace_messages").fetchall() == [(1,)]
    while log.stat().st_size < 2 * JOURNAL_SIZE_LIMIT:
        await backend.append(batch(*[message(20_000) for _ in range(50)]))
    assert reader.execute("SELECT count(*) FROM headrace_messages").fetchall() == [(1,)]
    reader.execute("COMMIT")
    reader.close()

    async def shrunk() -> bool:
        await append(backend)
        return log.stat().st_size <= JOURNAL_SIZE_LIMIT

    await wait_until(shrunk, message="the write-ahead log is short again")


# --- the file is gone -------------------------------------------------------------------------------------


def delete(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


async def test_a_deleted_file_is_noticed_and_made_anew(backend: SqliteStore, path: Path) -> None:
    await append(backend)
    (held,) = await claim(backend)
    leases = backend.lease_keeper()
    await leases.renew([held])
    delete(path)
    with pytest.raises(BackendUnavailable, match="deleted or replaced") as caught:
        await append(backend)
    assert caught.value.transient
    second = await append(backend)
    with contextlib.suppress(BackendUnavailable):
        await queued(backend)
    assert await queued(backend) == {second}
    assert await backend.settle([Settlement(held, DONE)]) == [Verdict.GONE]
    with pytest.raises(BackendUnavailable, match="deleted or replaced"):
        await leases.renew([held])
    assert await leases.renew([held]) == [Renewal.LOST]
    await leases.close()


async def test_a_replaced_file_is_noticed_by_those_who_wait(backend: SqliteStore, path: Path) -> None:
    waiting = asyncio.ensure_future(
        backend.claim([SOURCE], consumer="worker-1", limit=1, suspects=0, wait=50)
    )
    await asyncio.sleep(0)
    delete(path)
    other = await opened(path)
    id = await append(other)
    with pytest.raises(BackendUnavailable, match="deleted or replaced"):
        await waiting
    assert [each.id for each in await claim(backend)] == [id]
    await other.close()


# --- processes --------------------------------------------------------------------------------------------

PAUSE_AND_APPEND = """
import asyncio, sys
from pathlib import Path
from tests.integration.sqlite.test_faults import STREAM, append, opened

async def main():
    backend = await opened(Path(sys.argv[1]))
    await backend.pause(STREAM, paused=True)
    await backend.pause(STREAM, paused=False)
    print(await append(backend), flush=True)
    await backend.close()

asyncio.run(main())
"""


async def test_what_another_process_does_is_noticed(backend: SqliteStore, path: Path) -> None:
    heard: list[ControlMessage] = []
    stop = backend.listen(heard.append)
    waiting = asyncio.ensure_future(
        backend.claim([SOURCE], consumer="worker-1", limit=1, suspects=0, wait=50)
    )
    (process,) = start_many(PAUSE_AND_APPEND, path, 1)
    claims = await waiting
    await wait_until(lambda: len(heard) == 2)
    output, _ = process.communicate()
    assert [each.id for each in claims] == [output.decode().strip()]
    assert heard == [PauseNotice(STREAM, paused=True), PauseNotice(STREAM, paused=False)]
    stop()


def test_a_forked_child_opens_the_store_for_itself(path: Path) -> None:
    loop = asyncio.new_event_loop()
    backend = loop.run_until_complete(opened(path))
    first = loop.run_until_complete(append(backend))
    leases = backend.lease_keeper()
    claims = loop.run_until_complete(claim(backend))
    loop.run_until_complete(leases.renew(claims))
    child = os.fork()
    if child == 0:
        os._exit(asyncio.run(_in_the_child(backend, first)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert loop.run_until_complete(leases.renew(claims)) == [Renewal.KEPT]
    loop.run_until_complete(append(backend))
    assert loop.run_until_complete(backend.counts(STREAM)).queued == 2
    loop.run_until_complete(leases.close())
    loop.run_until_complete(backend.close())
    loop.close()
    assert is_sound(path)


async def _in_the_child(backend: SqliteStore, first: str) -> int:
    """0: all is well. An assertion would run the parent's tests to their end here."""
    try:
        await backend.counts(STREAM)
    except BackendUnavailable:
        pass
    else:
        return 1
    await backend.open()
    if await backend.get(STREAM, first) is None:
        return 2
    (answer,) = await backend.append(Batch(STREAM, "child", 1, [message()]))
    await backend.close()
    return 0 if answer.verdict == "accepted" else 3
