"""Fixtures for tests with real processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .workshop import Workshop


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    """Workers on a SQLite file."""
    workshop = Workshop(f"sqlite:///{tmp_path}/jobs.db", tmp_path)
    yield workshop
    await workshop.close()
