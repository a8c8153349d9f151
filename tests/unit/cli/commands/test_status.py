from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import pytest

from headrace import App
from tests.support.waiting import wait_until_sync
from tests.unit.cli.conftest import Shell

Enqueue = Callable[..., Any]
Working = Callable[[], AbstractContextManager[None]]


def test_each_queue_has_a_row_with_its_counts(
    app: App, headrace: Shell, enqueue: Enqueue, drain: Callable[[], None]
) -> None:
    enqueue("shop.mail", "ada")
    enqueue("shop.flaky")
    drain()
    enqueue("shop.mail", "bob")
    enqueue("shop.add", 1, delay=60)
    app.sync.admin.pause("mails")

    lines = headrace("status", "shop:app").stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(("default", "mails"))}
    assert rows["default"] == ["0", "0", "1", "1", "0"]
    assert rows["mails"][:5] == ["1", "0", "0", "0", "1"]
    assert rows["mails"][-1] == "paused"


def test_where_a_queue_is_split_the_parts_are_told(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.add", 1)
    enqueue("shop.mail", "ada")
    app.sync.admin.split("mails", 4)
    lines = headrace("status", "shop:app").stdout.splitlines()
    rows = [line.split()[:3] for line in lines if line.startswith(("queue", "default", "mails"))]
    assert rows == [["queue", "parts", "queued"], ["default", "1", "1"], ["mails", "4", "1"]]


def test_no_number_is_cut_where_there_is_little_room(
    app: App, headrace: Shell, enqueue: Enqueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue("shop.add", 1)
    monkeypatch.setenv("COLUMNS", "40")
    header = next(line for line in headrace("status", "shop:app").stdout.splitlines() if "queued" in line)
    assert header.split() == ["queue", "queued", "running", "retrying", "dead"]


def test_a_store_that_nobody_uses_says_so(app: App, headrace: Shell) -> None:
    text = headrace("status", "shop:app").stdout
    assert "no queue has been used yet" in text
    assert "no worker is running; start one with: headrace worker shop:app" in text


def test_json_has_stable_names_and_iso_times(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.add", 1)
    document = headrace.json("status", "shop:app")
    assert set(document) == {"store", "at", "seal", "queues", "topics", "workers", "outboxes"}
    [queue] = document["queues"]
    assert set(queue) >= {"name", "queued", "running", "scheduled", "retrying", "dead", "paused", "oldest"}
    assert datetime.fromisoformat(queue["oldest"]) <= datetime.fromisoformat(document["at"])


def test_an_interval_that_would_only_load_the_store_is_refused(app: App, headrace: Shell) -> None:
    assert "too often" in headrace.refused("status", "shop:app", "--watch", "--interval", "0")
    assert "no span" in headrace.refused("status", "shop:app", "--watch", "--interval", "soon")


def test_traffic_can_be_asked_for_without_an_event_loop(
    app: App, enqueue: Enqueue, drain: Callable[[], None]
) -> None:
    enqueue("shop.mail", "ada")
    enqueue("shop.quiet")
    drain()
    counts = {each.name: (sum(each.done), sum(each.failed)) for each in app.sync.admin.traffic(5)}
    assert counts == {"default": (1, 0), "mails": (0, 1)}


def test_workers_are_listed_with_what_they_run(app: App, headrace: Shell, working: Working, url: str) -> None:
    assert "no worker is running" in headrace("workers", "shop:app").stdout
    with working():
        wait_until_sync(lambda: headrace.json("workers", "shop:app"))
        [worker] = headrace.json("workers", "shop:app")
        text = headrace("workers", "shop:app").stdout
        summary = headrace("status", "shop:app").stdout
    assert set(worker) == {
        *("id", "host", "pid", "queues", "groups", "concurrency", "load", "started_at", "polled_at"),
        "running",
    }
    assert worker["id"] in text
    assert "0/100" in text
    assert "1 worker, 0 of 100 slots busy" in summary
