"""What the tests of single stores share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.stores.sqlite.sqlite_file import SqliteFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteFile]:
    file = SqliteFile(tmp_path / "jobs.db")
    yield file
    file.close()
