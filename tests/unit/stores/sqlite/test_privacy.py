"""Jobs hold private data: which users may read the file, and which files are not opened beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import App, BackendUnavailable
from headrace.stores.sqlite.connection.fair_write_lock import turn_path
from tests.support.doctor_findings import OK, WARN, examine


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0)  # nothing but what is asked for keeps others out
    yield tmp_path / "jobs.db"
    os.umask(before)


def modes(path: Path) -> dict[str, int]:
    return {each.name: each.lstat().st_mode & 0o777 for each in path.parent.iterdir()}


async def work(path: Path) -> dict[str, int]:
    """Store a job and run it; the rights of each file that is there meanwhile."""
    async with App(f"sqlite:///{path}") as app:

        @app.task(name="see")
        async def see() -> int:
            return 1

        job = await see.enqueue()
        await app.worker().run(burst=True)
        assert await job.result() == 1
        return modes(path)


async def test_all_files_are_for_their_owner_alone(path: Path) -> None:
    names = ["jobs.db", "jobs.db-reserve", "jobs.db-shm", "jobs.db-turn", "jobs.db-wal"]
    assert await work(path) == dict.fromkeys(names, 0o600)


async def test_behind_a_link_that_leads_nowhere_yet_too(path: Path) -> None:
    elsewhere = path.with_name("elsewhere.db")
    path.symlink_to(elsewhere)
    await work(path)
    assert modes(path)["elsewhere.db"] == 0o600


async def test_a_file_that_is_there_keeps_its_rights_and_those_beside_it_have_them_too(path: Path) -> None:
    path.touch()
    path.chmod(0o660)
    names = ["jobs.db", "jobs.db-reserve", "jobs.db-shm", "jobs.db-turn", "jobs.db-wal"]
    assert await work(path) == dict.fromkeys(names, 0o660)


@pytest.mark.parametrize("mode", [0o640, 0o604])
async def test_the_doctor_warns_of_a_file_that_others_may_read(path: Path, mode: int) -> None:
    await work(path)
    assert (await examine(f"sqlite:///{path}")).level("privacy") == OK
    path.chmod(mode)
    found = await examine(f"sqlite:///{path}")
    assert found.level("privacy") == WARN
    assert f"chmod go= {path}" in found["privacy"].remedy


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
async def test_a_link_beside_the_file_is_not_followed(path: Path, suffix: str) -> None:
    await work(path)
    victim = path.with_name("victim")
    victim.write_text("precious")
    path.with_name(f"{path.name}{suffix}").symlink_to(victim)
    with pytest.raises(BackendUnavailable, match="cannot be opened"):
        await work(path)
    assert victim.read_text() == "precious"


async def test_nor_is_one_in_the_place_of_the_file_for_turns(path: Path) -> None:
    victim = path.with_name("victim")
    turn_path(path).symlink_to(victim)
    await work(path)
    assert not victim.exists()
