"""`headrace schema`, `headrace relay`, and what `headrace status` shows of an outbox."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headrace import App
from tests.unit.cli.conftest import Shell


@pytest.fixture
def outbox(url: str, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/mine.db"


@pytest.fixture
def shop(url: str, outbox: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """`shop:app`, with an outbox in a file of the user."""
    app = App(url, outbox=outbox)

    @app.task(name="charge")
    def charge(order: int) -> None: ...

    module: Any = ModuleType("shop")
    module.app = app
    monkeypatch.setitem(sys.modules, "shop", module)
    yield app
    app.sync.close()


def charged(app: App, outbox: str, *orders: int) -> None:
    """A transaction of the user that charges these orders."""
    connection = sqlite3.connect(outbox.removeprefix("sqlite:///"))
    connection.execute("BEGIN")
    app.sync.enqueue_many([app.tasks["charge"].call(order) for order in orders], transaction=connection)
    connection.commit()
    connection.close()


def test_the_tables_of_an_outbox_are_made_any_number_of_times(headrace: Shell, outbox: str) -> None:
    for _ in range(2):
        result = headrace("schema", "apply", outbox)
        assert result.exit_code == 0
        assert "mine.db has the tables of an outbox" in result.stdout


def test_the_statements_are_printed_for_people_who_migrate_by_hand(
    headrace: Shell, outbox: str, shop: App
) -> None:
    statements = headrace("schema", "print", "sqlite").stdout
    with sqlite3.connect(outbox.removeprefix("sqlite:///")) as connection:
        connection.executescript(statements)
    connection.close()
    charged(shop, outbox, 1)
    assert headrace.json("status", "shop:app")["outboxes"][0]["waiting"] == 1


def test_what_waits_in_an_outbox_is_in_the_status_until_a_relay_ran(
    headrace: Shell, outbox: str, shop: App
) -> None:
    headrace("schema", "apply", outbox)
    charged(shop, outbox, 1, 2)
    [seen] = headrace.json("status", "shop:app")["outboxes"]
    assert (seen["waiting"], seen["relays"], seen["error"]) == (2, 0, "")
    assert "mine.db" in headrace("status", "shop:app").stdout
    assert "no process relays it" in headrace("doctor", "shop:app").stdout

    assert headrace("relay", "shop:app", "--burst").exit_code == 0
    status = headrace.json("status", "shop:app")
    assert status["outboxes"][0]["waiting"] == 0
    assert status["queues"][0]["queued"] == 2


def test_an_outbox_without_its_tables_is_a_warning_of_the_doctor(headrace: Shell, shop: App) -> None:
    text = headrace("doctor", "shop:app").stdout
    assert "outboxes" in text
    assert "headrace schema apply" in text


def test_an_app_with_nothing_to_relay_is_refused(app: App, headrace: Shell) -> None:
    assert "nothing to relay" in headrace.refused("relay", "shop:app")


def test_a_url_that_is_no_database_is_refused(headrace: Shell, url: str) -> None:
    assert "postgresql:// or sqlite:///" in headrace.refused("schema", "apply", "redis://localhost")
