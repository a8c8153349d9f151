from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import App
from headrace.testing import Kit, memory


@pytest.fixture
def app() -> App:
    return App("memory://")


@pytest.fixture
def kit(app: App) -> Iterator[Kit]:
    with memory(app) as kit:
        yield kit
