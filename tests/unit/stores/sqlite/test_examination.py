"""What a doctor finds in a SQLite file: each line once ok, and once not."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from headrace import App
from headrace.core.errors import ConfigurationError
from headrace.stores.sqlite import examination
from tests.support.doctor_findings import FAIL, OK, WARN, Findings, examine
from tests.support.servers import missing

LINES = [
    "library",
    "file system",
    "journal",
    "integrity",
    "journal size",
    "durability",
    "disk",
    "rights",
    "privacy",
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


async def examine_path(path: Path, **options: str) -> Findings:
    return await examine(f"sqlite:///{path}", **options)


async def test_a_file_that_is_well_is_ok_in_every_line(path: Path) -> None:
    found = await examine_path(path)
    assert [finding.name for finding in found.all][: len(LINES)] == LINES
    assert {found.level(name) for name in LINES if name != "file system"} == {OK}


async def test_a_library_with_the_bug_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(ConfigurationError, match="bug that can corrupt"):
        await examine_path(path)


async def test_a_file_that_ends_with_the_machine_is_told() -> None:
    if not Path("/dev/shm").is_dir():
        # Only Linux has one at a known place, and what is tested is that it is recognised.
        missing("this system has no file system in memory")
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        assert (await examine_path(folder / "jobs.db")).level("file system") == WARN
    finally:
        shutil.rmtree(folder)


async def test_a_damaged_file_is_a_failure(path: Path) -> None:
    app = App(f"sqlite:///{path}")

    @app.task
    async def keep(text: str) -> None: ...

    await app.enqueue_many([keep.call("x" * 3000) for _ in range(500)])
    await app.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 20_000)
    found = await examine_path(path)
    assert found.level("integrity") == FAIL
    assert "restore" in found["integrity"].remedy


async def test_what_is_no_database_is_a_failure_of_its_own(path: Path) -> None:
    async with App(f"sqlite:///{path}") as app:
        await app.admin.doctor()
        damaged = path.with_name("other.db")
        damaged.write_bytes(b"no database at all, but long enough to be read as one" * 100)
        found = Findings(examination.examine_file(damaged, "FULL"))
    assert found.level("integrity") == FAIL


async def test_a_large_file_is_not_looked_through(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "LARGE_FILE", 1)
    found = await examine_path(path)
    assert found.level("integrity") == OK
    assert "not checked" in found["integrity"].text


async def test_a_log_that_a_reader_keeps_from_shrinking_is_told(path: Path) -> None:
    app = App(f"sqlite:///{path}", durability="relaxed")

    @app.task(name="keep")
    async def keep(data: bytes) -> None: ...

    async with app:
        await keep.enqueue(b"")
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN; SELECT * FROM headrace_schema").fetchall()
        try:
            for _ in range(80):
                await keep.enqueue(bytes(1_000_000))
            assert (await examine_path(path)).level("journal size") == WARN
        finally:
            reader.close()


async def test_a_journal_that_somebody_changed_is_a_failure(path: Path) -> None:
    class Changed:
        def value(self, sql: str) -> str:
            return "delete"

    finding = examination._journal_mode(Changed())  # type: ignore[arg-type]
    assert finding.level == FAIL


async def test_relaxed_durability_is_told(path: Path) -> None:
    assert (await examine_path(path, durability="relaxed")).level("durability") == WARN


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(("free", "level"), [(1 << 31, OK), (1 << 28, WARN), (1 << 20, FAIL)])
async def test_a_disk_that_runs_full_is_told(
    path: Path, free: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(1 << 40, (1 << 40) - free, free))
    assert (await examine_path(path)).level("disk") == level


async def test_a_file_that_everybody_may_change_is_told(path: Path) -> None:
    await examine_path(path)
    path.chmod(0o666)
    assert (await examine_path(path)).level("rights") == WARN


async def test_a_folder_that_everybody_may_change_is_told_unless_it_is_sticky(path: Path) -> None:
    path.parent.chmod(0o777)
    assert (await examine_path(path)).level("rights") == WARN
    path.parent.chmod(0o1777)
    assert (await examine_path(path)).level("rights") == OK


async def test_a_file_that_may_not_be_written_is_a_failure(nobodys_folder: Path) -> None:
    path = nobodys_folder / "jobs.db"
    await examine_path(path)
    path.chmod(0o444)
    assert (await examine_path(path)).level("rights") == FAIL


async def test_the_quick_part_is_logged_once(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(1 << 40, (1 << 40) - 5, 5))
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            async with App(f"sqlite:///{path}"):
                pass
    said = [record.getMessage() for record in caplog.records if "(disk)" in record.getMessage()]
    assert len(said) == 1
    assert "make room" in said[0]
