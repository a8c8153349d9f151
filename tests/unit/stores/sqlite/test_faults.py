"""The table of SQLite's errors: each becomes an error of ours that says what to do."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from headrace.stores.sqlite.faults import FAULTS, UNFORESEEN, fault_of, unavailable

PATH = Path("/data/jobs.db")


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_every_error_says_where_what_and_what_to_do(kind: type[apsw.Error]) -> None:
    error = unavailable(PATH, kind("the words of SQLite"))
    fault = FAULTS[kind]
    for part in (str(PATH), fault.what, "the words of SQLite", fault.advice):
        assert part in str(error)


def test_an_error_that_nobody_foresaw_is_one_of_ours_too() -> None:
    assert fault_of(apsw.SQLError("near SELECT")) is UNFORESEEN
    assert "near SELECT" in str(unavailable(PATH, apsw.SQLError("near SELECT")))


@pytest.mark.parametrize(
    "code", ["BUSY", "LOCKED", "READONLY", "FULL", "IOERR", "CANTOPEN", "CORRUPT", "NOTADB", "PERM"]
)
def test_the_errors_of_disks_and_locks_are_all_in_the_table(code: str) -> None:
    kind = type(apsw.exception_for(getattr(apsw, f"SQLITE_{code}")))
    assert kind in FAULTS


def test_a_lock_passes_by_itself_and_a_full_disk_does_not() -> None:
    assert unavailable(PATH, apsw.BusyError()).transient
    assert not unavailable(PATH, apsw.FullError()).transient


def test_only_a_commit_on_a_failing_disk_is_uncertain() -> None:
    assert unavailable(PATH, apsw.IOError(), committing=True).uncertain
    assert not unavailable(PATH, apsw.IOError()).uncertain
    assert not unavailable(PATH, apsw.FullError(), committing=True).uncertain
    assert not unavailable(PATH, apsw.BusyError(), committing=True).uncertain
