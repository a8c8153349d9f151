"""The recipe of docs/integrations/structlog.md against the real library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.frameworks.recipes import run_with_recipe

PROGRAM = """
    import asyncio, logging

    import structlog
    import shop
    from headrace import RetryPolicy

    app = shop.app
    log = structlog.get_logger("test")

    @app.task(name="first")
    async def first(order: int) -> None:
        structlog.contextvars.bind_contextvars(order=order)
        await asyncio.sleep(0)
        log.info("charged")

    @app.task(name="second")
    def second(parcel: int) -> None:
        structlog.contextvars.bind_contextvars(parcel=parcel)
        logging.getLogger("library").info("packed %d", parcel)

    @app.task(name="fails", retry=RetryPolicy.none())
    async def fails() -> None:
        raise ValueError("no funds")

    async def main():
        calls = [task.with_(job_id=f"{task.name}-{n}").call(n) for n in range(20) for task in (first, second)]
        await app.enqueue_many([*calls, fails.with_(job_id="fails").call(), shop.charge.call(7)])
        await app.worker(concurrency=4).run(burst=True)
        await app.close()
        log.info("outside")

    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("structlog")
    output = run_with_recipe("docs/integrations/structlog.md", PROGRAM, folder).stderr
    return [json.loads(line) for line in output.splitlines()]


def test_every_line_of_a_job_names_it_and_nothing_of_another(lines: list[dict[str, Any]]) -> None:
    mine = [line for line in lines if line["event"] == "charged" and line["task"] == "first"]
    packed = [line for line in lines if line["logger"] == "library"]
    assert len(mine) == len(packed) == 20
    for line in mine:
        assert (line["job_id"], line["queue"], line["attempt"]) == (f"first-{line['order']}", "default", 1)
        assert "parcel" not in line
    for line in packed:
        assert line["event"] == f"packed {line['parcel']}"
        assert line["job_id"] == f"second-{line['parcel']}"
        assert "order" not in line


def test_the_lines_of_headrace_have_fields_too(lines: list[dict[str, Any]]) -> None:
    [died] = [line for line in lines if line.get("signal") == "JobDied"]
    assert (died["job_id"], died["task"], died["reason"]) == ("fails", "fails", "exhausted")
    assert (died["logger"], died["level"]) == ("headrace", "error")
    assert "order" not in died


def test_outside_of_jobs_nothing_is_left(lines: list[dict[str, Any]]) -> None:
    [outside] = [line for line in lines if line["event"] == "outside"]
    assert not {"job_id", "task", "order", "parcel"} & outside.keys()
