"""The recipe of docs/integrations/sentry.md against the real client, whose transport is local."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.frameworks.recipes import run_with_recipe

PROGRAM = """
    import asyncio, json, logging, time

    import sentry_sdk
    from sentry_sdk.transport import Transport
    import shop
    from headrace import RetryPolicy, Snooze, current_job

    app = shop.app
    reports = []

    class Local(Transport):
        def capture_envelope(self, envelope):
            if (event := envelope.get_event()) is not None:
                reports.append(event)

    sentry_sdk.init(dsn="https://key@localhost/1", transport=Local)

    def plain_helper(order):
        raise ValueError(f"order {order}")

    @app.task(name="plain", retry=RetryPolicy.fixed(2, 0))
    def plain(order: int) -> None:
        sentry_sdk.set_tag(f"order-{order}", "seen")
        plain_helper(order)

    @app.task(name="on_loop", retry=RetryPolicy.none())
    async def on_loop(order: int) -> None:
        sentry_sdk.set_tag(f"order-{order}", "seen")
        sentry_sdk.add_breadcrumb(message=f"order {order}")
        await asyncio.sleep(0)
        raise KeyError(order)

    @app.task(name="slow", retry=RetryPolicy.none(), timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(60)

    @app.task(name="recovers", retry=RetryPolicy.fixed(2, 0))
    async def recovers() -> None:
        if current_job().attempt == 1:
            raise ValueError("not yet")

    @app.task(name="snoozes")
    async def snoozes() -> None:
        if time.monotonic() < began + 0.1:
            raise Snooze(0.1)

    @app.task(name="ends_by_an_error")
    def ends_by_an_error() -> None:
        while not current_job().cancelled:
            time.sleep(0.01)
        raise ValueError("cancelled")

    began = time.monotonic()

    async def main():
        calls = [task.with_(job_id=f"{task.name}-{n}").call(n) for n in range(5) for task in (plain, on_loop)]
        calls += [task.with_(job_id=task.name).call() for task in (slow, recovers, snoozes)]
        await app.enqueue_many(calls)
        await app.worker(concurrency=3).run(burst=True)
        job = await ends_by_an_error.enqueue()
        async with app.worker():
            while await job.status() != "running":
                await asyncio.sleep(0.01)
            await job.cancel()
            await job.wait(timeout=30)
        await app.close()
        assert not shop.raised, shop.raised

    asyncio.run(main())
    print(json.dumps(reports, default=str))
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Sentry gets, by the id of the job. A job that was reported twice fails here."""
    folder: Path = tmp_path_factory.mktemp("sentry")
    found = json.loads(run_with_recipe("docs/integrations/sentry.md", PROGRAM, folder).stdout)
    by_job = {report["tags"]["job_id"]: report for report in found}
    assert len(by_job) == len(found)
    return by_job


def test_each_job_that_failed_for_good_is_reported_once_and_no_other(reports: dict[str, Any]) -> None:
    wanted = {f"{task}-{n}" for task in ("plain", "on_loop") for n in range(5)} | {"slow"}
    assert reports.keys() == wanted


def test_a_report_names_its_job_and_has_the_stack_of_its_error(reports: dict[str, Any]) -> None:
    report = reports["plain-3"]
    assert (report["tags"]["task"], report["tags"]["queue"]) == ("plain", "default")
    assert report["contexts"]["job"] == {"attempts": 3, "reason": "exhausted"}
    [error] = report["exception"]["values"]
    assert (error["type"], error["value"]) == ("ValueError", "order 3")
    assert error["stacktrace"]["frames"][-1]["function"] == "plain_helper"


def test_what_a_job_adds_is_in_its_own_report_only(reports: dict[str, Any]) -> None:
    for n in range(5):
        for task in ("plain", "on_loop"):
            tags = reports[f"{task}-{n}"]["tags"]
            assert [tag for tag in tags if tag.startswith("order-")] == [f"order-{n}"]
        crumbs = reports[f"on_loop-{n}"]["breadcrumbs"]["values"]
        assert [crumb["message"] for crumb in crumbs if crumb.get("message", "").startswith("order")] == [
            f"order {n}"
        ]


def test_a_job_without_an_exception_is_reported_by_its_reason(reports: dict[str, Any]) -> None:
    assert "exception" not in reports["slow"]
    assert reports["slow"]["message"].startswith("slow is dead")
