from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import App
from tests.unit.cli.conftest import Shell


def test_each_line_has_a_level_a_name_and_a_fact(app: App, headrace: Shell) -> None:
    app.sync.admin.queues()
    result = headrace("doctor", "shop:app")
    assert result.exit_code == 0
    assert "ok    library" in result.stdout
    assert "ok    tasks" in result.stdout
    assert result.stdout.rstrip().endswith("all is well") or "warning" in result.stdout


def test_a_warning_says_what_to_do_and_is_no_failure(
    app: App, headrace: Shell, enqueue: Callable[..., Any]
) -> None:
    enqueue("shop.add", 1)
    result = headrace("doctor", "shop:app")
    assert result.exit_code == 0
    line, remedy = [each for each in result.stdout.splitlines() if "served" in each or "→" in each][-2:]
    assert line.startswith("warn  served")
    assert remedy.strip() == "→ start one: headrace worker shop:app"


def test_a_long_fact_goes_on_in_its_own_column(
    app: App, headrace: Shell, enqueue: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue("shop.add", 1)
    monkeypatch.setenv("COLUMNS", "40")
    _store, found, _summary = headrace("doctor", "shop:app").stdout.split("\n\n")
    facts = found.splitlines()
    assert all(line.startswith(("ok    ", "warn  ", " " * 20)) for line in facts), facts
    assert any(line.startswith(" " * 20) for line in facts)


def test_a_failure_is_the_exit_code(app: App, headrace: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    app.sync.admin.queues()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(100, 99, 1))
    result = headrace("doctor", "shop:app")
    assert result.exit_code == 1
    assert "fail  disk" in result.stdout
    assert "1 failed" in result.stdout


def test_a_store_that_cannot_be_opened_is_a_failure(headrace: Shell, tmp_path: Path, url: str) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database, whatever its name may say" * 100)
    result = headrace("doctor", "--url", f"sqlite:///{broken}")
    assert result.exit_code == 1
    assert "fail  store" in result.stdout


def test_wrong_usage_has_a_code_of_its_own(headrace: Shell, url: str) -> None:
    assert "no store that headrace knows" in headrace.refused("doctor", "--url", "nonsense://x")
    assert "there is no file" in headrace.refused("doctor", "--url", url)


def test_json_has_all_findings(app: App, headrace: Shell) -> None:
    app.sync.admin.queues()
    document = headrace.json("doctor", "shop:app")
    assert set(document) == {"store", "findings"}
    assert all(set(each) == {"name", "level", "text", "remedy"} for each in document["findings"])
    assert {each["level"] for each in document["findings"]} <= {"ok", "warn", "fail"}


def test_with_a_url_there_is_no_app_to_compare_tasks_with(app: App, headrace: Shell, url: str) -> None:
    app.sync.admin.queues()
    names = {each["name"] for each in headrace.json("doctor", "--url", url)["findings"]}
    assert "tasks" not in names
    assert "workers" in names
