"""Workers of another version beside the current ones: of an earlier commit with the same store format, which
work along, and of another format, which are refused and touch nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.torture.arena import CLUSTER, REDIS, SENTINEL, SQLITE, Arena, Fault
from tests.torture.fleet import ENDS, ROOT, Member

PACKAGE = "src/headrace"

#: What says which format a version stores, in SQLite and in Redis.
MIGRATIONS = f"{PACKAGE}/stores/sqlite/connection/migrations"
KEYS = f"{PACKAGE}/stores/redis/keys.py"

#: What a worker says that is refused because of its format.
REFUSALS = ("was written by a newer headrace", "holds jobs in format")


async def _run_beside(arena: Arena) -> None:
    """Both work on the same messages, and nothing runs again: this fault hits no process."""
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        _check_out(_earlier(), Path(folder))
        member = await arena.fleet.start_worker({"PYTHONPATH": f"{folder}/src"})
        assert not member.ended, f"a worker of {_earlier()} does not start:\n{_output(member)}"
        async with arena.fault("old-worker-beside"):
            await arena.pause(leases=3)
        async with arena.fault("worker-terminated", member.name, gentle=True):
            member.send(signal.SIGTERM)
            await arena.fleet.until(lambda: member.ended, ENDS)


async def _be_refused(arena: Arena) -> None:
    """It ends by itself with an error that says why, which is right here."""
    with _other_format() as folder:
        member = await arena.fleet.start_worker({"PYTHONPATH": str(folder)})
        async with arena.fault("other-format-refused", member.name):
            await arena.fleet.until(lambda: member.ended, ENDS)
    said = _output(member)
    assert member.exit_code, "a worker of another format ended with 0"
    assert any(words in said for words in REFUSALS), f"a worker of another format says:\n{said}"


def _output(member: Member) -> str:
    return member.output.read_text(errors="replace")


@contextmanager
def _other_format() -> Iterator[Path]:
    """A copy of this package that knows an older format of SQLite and another one of Redis."""
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        package = Path(folder) / "headrace"
        shutil.copytree(ROOT / PACKAGE, package)
        newest = max((package / MIGRATIONS.removeprefix(f"{PACKAGE}/")).iterdir())
        newest.unlink()
        keys = package / KEYS.removeprefix(f"{PACKAGE}/")
        keys.write_text(keys.read_text().replace('FORMAT = "v1"', 'FORMAT = "v0"'))
        yield Path(folder)


# --- the history of this project ---------------------------------------------------------------------------


@cache
def _missing() -> str:
    if shutil.which("git") is None or _git("rev-parse", "HEAD") is None:
        return "there is no git history"
    return "" if _earlier() else "no earlier commit has the same store format"


@cache
def _earlier() -> str:
    """The newest earlier commit that differs in the package and has the same store format; empty: none."""
    commits = (_git("log", "--format=%H", "-50", "--", PACKAGE) or "").split()
    return next((commit for commit in commits[1:] if _has_same_format(commit)), "")


def _has_same_format(commit: str) -> bool:
    return _git("diff", "--quiet", commit, "--", MIGRATIONS) is not None and _format(
        _git("show", f"{commit}:{KEYS}") or ""
    ) == _format((ROOT / KEYS).read_text())


def _format(source: str) -> str:
    """The line that names the format of Redis. A version without one has the first."""
    return next((line for line in source.splitlines() if line.startswith("FORMAT = ")), 'FORMAT = "v1"')


def _check_out(commit: str, folder: Path) -> None:
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)


def _git(*words: str) -> str | None:
    """What a git command says; None: it failed."""
    ran = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True)
    return None if ran.returncode else ran.stdout


FAULTS = [
    Fault("old-worker-beside", _run_beside, missing=_missing),
    # Tables of PostgreSQL stay readable for earlier versions: see its migration tests.
    Fault("other-format-refused", _be_refused, REDIS | SQLITE | SENTINEL | CLUSTER),
]
