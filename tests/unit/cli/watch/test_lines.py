"""Without a terminal: lines for a log, documents for a program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headrace import App
from headrace.cli import watch
from headrace.cli.status.snapshot import Snapshot
from headrace.cli.status.snapshot import look as real_look
from headrace.core.errors import BackendUnavailable
from tests.unit.cli.conftest import Shell

Enqueue = Callable[..., Any]


@pytest.fixture(autouse=True)
def three_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is away at the second; Ctrl-C comes after the third."""
    looks = 0

    async def look(app: App) -> Snapshot:
        if looks == 1:
            raise BackendUnavailable("the store\x1b is gone")
        return await real_look(app)

    async def rest(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch, "look", look)
    monkeypatch.setattr(watch, "_wait", rest)


def test_a_block_for_each_look_and_no_control_codes(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.mail", "ada")
    result = headrace("status", "shop:app", "--watch")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    first, second, third = result.stdout.strip().split("\n\n202")
    for block in (first, third):
        assert "mails" in block
        assert block.endswith("! mails has 1 job waiting and no worker")
    assert second.endswith("! the store\\x1b is gone")


def test_a_document_on_each_line(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.mail", "ada")
    result = headrace("status", "shop:app", "--watch", "--json")
    assert result.exit_code == 0
    first, second, third = map(msgspec.json.decode, result.stdout.splitlines())
    for document in (first, third):
        assert set(document) == {"store", "at", "seal", "queues", "topics", "workers", "outboxes"}
        assert document["queues"][0]["queued"] == 1
    assert set(second) == {"store", "at", "error"}


def test_nothing_of_the_dashboard_needs_to_be_installed() -> None:
    code = (
        "import sys\n"
        "for name in ('starlette', 'jinja2', 'markupsafe', 'uvicorn'): sys.modules[name] = None\n"
        "import headrace.cli.main\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
