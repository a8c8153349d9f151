"""Paging stays quick however many jobs wait. `HEADRACE_MANY_JOBS=1000000` makes it a million."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from tests.browser.plant import Plant
from tests.servers import Fleet

from .conftest import STORES, Stand, Tab, url_of

#: Jobs that wait; fewer on Redis, since making them takes longer than all the rest.
JOBS = {"sqlite": 200_000, "redis": 50_000}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", STORES)
def test_pages_of_many_waiting_jobs_come_within_a_second(
    store: str, browser: Any, tmp_path_factory: pytest.TempPathFactory, servers: Fleet
) -> None:
    jobs = int(os.environ.get("HEADRACE_MANY_JOBS", JOBS[store]))
    url = url_of(store, tmp_path_factory.mktemp("many"), servers)
    producer = Plant(url, durability="relaxed" if store == "sqlite" else "default")
    for start in range(0, jobs, 20_000):
        calls = [producer.bulk.call(number) for number in range(start, min(start + 20_000, jobs))]
        producer.app.sync.enqueue_many(calls)
    stand = Stand(url)
    tab = Tab(browser)
    took: dict[str, float] = {}

    def visit(name: str, go: Any) -> None:
        began = time.monotonic()
        go()
        tab.page.locator("#live").wait_for()
        took[name] = time.monotonic() - began

    try:
        tab.page.goto(f"{stand.open}/schedules")  # the browser is warm
        visit("overview", lambda: tab.page.goto(stand.open))
        visit("first", lambda: tab.page.goto(f"{stand.open}/queues/bulk"))
        assert tab.page.locator("tbody tr").count() == 50
        for number in range(3):
            visit(f"next {number}", lambda: tab.page.get_by_role("link", name="Next page").click())
        visit("search", lambda: tab.page.goto(f"{stand.open}/queues/bulk?text=nothing-like-it"))
        assert "Look further" in tab.page.content()
        print(store, jobs, {name: round(seconds, 2) for name, seconds in took.items()})
        # A search gives itself 0.7 s to look around, and the machine has other things to do.
        assert all(seconds < (2 if name == "search" else 1) for name, seconds in took.items()), took
    finally:
        tab.close()
        stand.close()
        producer.app.sync.admin.purge("bulk")
        producer.app.sync.close()
