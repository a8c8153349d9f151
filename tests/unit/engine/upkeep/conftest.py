from __future__ import annotations

from typing import Any

import pytest

from tests.support.movable_loop import MovableLoop


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Pauses of services are measured on a loop whose time a test moves."""
    return "asyncio", {"loop_factory": MovableLoop}
