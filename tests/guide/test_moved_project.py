"""`examples/from_celery/after.py` does what the shop on Celery does."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from headrace import App, JobStatus
from headrace.testing import memory

FOLDER = Path(__file__).parents[2] / "examples/from_celery"


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("HEADRACE_URL", "memory://")
    spec = importlib.util.spec_from_file_location("after", FOLDER / "after.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_order_is_charged_and_its_receipt_is_sent_once(shop: ModuleType) -> None:
    app: App = shop.app
    with memory(app) as kit:
        first = shop.charge.sync.enqueue(7, 12.5)
        second = shop.charge.sync.enqueue(7, 12.5)  # as after a crash
        kit.sync.drain(scheduled=True)
        assert app.sync.result(first) == app.sync.result(second) == "receipt 7"
        [receipt] = kit.assert_enqueued(shop.send_receipt, args=(7,), queue="mails")
        assert receipt.id == "receipt-7"
        assert receipt.status is not JobStatus.DEAD


def test_thumbnails_and_the_report_are_there(shop: ModuleType) -> None:
    app: App = shop.app
    with memory(app) as kit:
        jobs = app.sync.enqueue_many([shop.thumbnail.call(name) for name in ("a.png", "b.png")])
        kit.sync.drain()
        assert [app.sync.result(job) for job in jobs] == ["a.png", "b.png"]
        [schedule] = app.sync.schedules.list()
        assert (schedule.name, schedule.cron, schedule.tz) == ("shop.report", "0 9 * * *", "Europe/London")
