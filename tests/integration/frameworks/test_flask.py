"""`headrace.flask`: the application context of jobs, and plain calls under threads and forked servers."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from flask import Flask, current_app, g

from headrace import App
from headrace.core.errors import ConfigurationError
from headrace.flask import Headrace, site_app
from headrace.testing import memory
from tests.support.waiting import wait_until_sync

ROOT = Path(__file__).parents[3]
PROGRAMS = "tests.integration.programs"


def shop(name: str = "ann") -> Flask:
    site = Flask(name)
    site.config["SHOP"] = name
    return site


def test_jobs_have_the_context_of_the_site_and_nothing_of_other_jobs() -> None:
    app = App("memory://")
    extension = Headrace(app)

    @app.task(name="plain")
    def plain(order: int) -> str:
        assert "order" not in g
        g.order = order
        return f"{current_app.config['SHOP']} {order}"

    @app.task(name="on_loop")
    async def on_loop(order: int) -> str:
        assert "order" not in g
        g.order = order
        return f"{current_app.config['SHOP']} {order}"

    extension.init_app(shop())
    with memory(app) as kit:
        jobs = app.sync.enqueue_many([task.call(n) for n in range(5) for task in (plain, on_loop)])
        kit.sync.drain(raise_errors=True)
        assert app.sync.results(jobs) == [f"ann {n}" for n in range(5) for _ in (1, 2)]


async def test_what_a_plain_job_opened_is_closed_in_its_thread() -> None:
    app = App("memory://")
    site = shop()
    Headrace(app, site)
    closed_in: list[int] = []

    @site.teardown_appcontext
    def close(error: BaseException | None) -> None:
        if "database" in g:
            g.database.close()  # sqlite3 refuses this in another thread
            closed_in.append(threading.get_ident())

    @app.task(name="count")
    def count() -> int:
        g.database = sqlite3.connect(":memory:")
        return threading.get_ident()

    with memory(app) as kit:
        job = await count.enqueue()
        await kit.drain(raise_errors=True)
        ran_in = await job.result()
    assert closed_in == [ran_in]
    assert ran_in != threading.get_ident()


def test_the_last_site_of_a_process_gives_the_context_and_each_finds_its_app() -> None:
    app = App("memory://")
    extension = Headrace(app)

    @app.task(name="name")
    def name() -> str:
        return str(current_app.config["SHOP"])

    first, second = shop("first"), shop("second")
    extension.init_app(first)
    extension.init_app(second)
    with memory(app) as kit:
        job = name.sync.enqueue()
        kit.sync.drain(raise_errors=True)
        assert job.sync.result() == "second"
    for site in (first, second):
        with site.app_context():
            assert site_app() is app
    with shop().app_context(), pytest.raises(ConfigurationError, match="init_app"):
        site_app()


@contextmanager
def gunicorn(tmp_path: Path, *options: str) -> Iterator[httpx.Client]:
    """The site of `programs/flask_site.py` under a real server."""
    environment = os.environ | {"HEADRACE_URL": f"sqlite:///{tmp_path}/jobs.db", "PYTHONPATH": str(ROOT)}
    site = f"{PROGRAMS}.flask_site:create_app()"
    command = [sys.executable, "-m", "gunicorn", "--bind", "127.0.0.1:0", *options, site]
    log = tmp_path / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=output)
    try:
        wait_until_sync(lambda: server.poll() is not None or "Listening at" in log.read_text())
        listening = re.search(r"Listening at: (http://\S+)", log.read_text())
        assert listening, log.read_text()
        with httpx.Client(base_url=listening[1], timeout=30) as client:
            yield client
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="gunicorn forks")
@pytest.mark.parametrize("preload", [True, False])
def test_plain_calls_work_in_every_thread_of_every_forked_process(tmp_path: Path, preload: bool) -> None:
    options = ["--workers", "2", "--threads", "4", "--worker-class", "gthread", *["--preload"] * preload]
    with gunicorn(tmp_path, *options) as client:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda order: client.post(f"/orders/{order}").json(), range(40)))
        work = [sys.executable, "-m", "headrace", "worker", f"{PROGRAMS}.flask_wsgi:app", "--burst"]
        environment = os.environ | {"HEADRACE_URL": f"sqlite:///{tmp_path}/jobs.db"}
        subprocess.run(work, check=True, cwd=ROOT, env=environment, capture_output=True, timeout=50)
        results = [client.get(f"/jobs/{answer['job']}").json()["result"] for answer in answers]
        assert results == [f"shop of ann {order}" for order in range(40)]
        assert client.get("/jobs/opening").json() == {"result": "shop of ann 0"}
    assert len({(answer["process"], answer["thread"]) for answer in answers}) > 1
