from __future__ import annotations

from pathlib import Path

import pytest

from headrace import App
from headrace.cli import bench

from .conftest import Shell


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ONE_BY_ONE": 0.02, "BULK": 0.05, "BATCH": 20, "MOST": 100, "SAMPLES": 5}.items():
        monkeypatch.setattr(bench, name, value)


@pytest.mark.parametrize("place", ["sqlite:///jobs.db", "memory://"])
def test_a_store_is_measured_and_left_as_it_was(
    headrace: Shell, url: str, tmp_path: Path, place: str
) -> None:
    figures = headrace.json("bench", place)
    assert set(figures) == {
        *("store", "enqueue_per_second", "bulk_per_second", "drain_per_second"),
        *("pick_up_p50_ms", "pick_up_p99_ms"),
    }
    assert all(figures[name] > 0 for name in figures if name != "store")
    assert list(tmp_path.iterdir()) == []


def test_the_store_of_an_app_is_measured_and_its_jobs_are_let_be(
    app: App, headrace: Shell, tmp_path: Path
) -> None:
    app.sync.enqueue(app.tasks["shop.add"].call(1))
    result = headrace("bench", "shop:app")
    assert result.exit_code == 0
    assert str(tmp_path / "jobs.db") in result.stdout
    assert "pick-up on an idle queue, median" in result.stdout
    assert "measuring: drain" in result.stderr
    [queue] = app.sync.admin.queues()
    assert queue.queued == 1


def test_a_folder_that_is_not_there_is_refused(headrace: Shell, url: str, tmp_path: Path) -> None:
    assert "no file can be made in" in headrace.refused("bench", f"sqlite:///{tmp_path}/missing/jobs.db")
