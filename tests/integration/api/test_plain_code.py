"""Tasks, jobs and topics from plain code: `.sync`, in threads, beside a running loop, and after a fork."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace import App, ConfigurationError, JobStatus, Published
from headrace.core.messages.ids import new_id
from tests.integration.api.conftest import MakeApp


async def test_threads_use_the_short_forms_beside_a_running_loop(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    def from_plain_code(number: int) -> int:
        job = add.with_(headers={"by": "a thread"}).sync.enqueue(number, 1)
        result = job.sync.result(timeout=10)
        assert job.sync.status() is JobStatus.SUCCEEDED
        assert job.sync.wait(timeout=1) is JobStatus.SUCCEEDED
        assert job.sync.info().attempts == 1
        assert job.sync.cancel() is False
        return result

    async with app, app.worker():
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(8) as threads:
            waiting = [loop.run_in_executor(threads, from_plain_code, number) for number in range(32)]
            assert await asyncio.gather(*waiting) == list(range(1, 33))


async def test_a_loop_that_has_the_app_open_is_not_blocked(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    async with app:
        with pytest.raises(ConfigurationError, match="await the method of the app instead"):
            add.sync.enqueue(1, 2)


async def run_all(app: App) -> None:
    async with app:
        await app.worker().run(burst=True)


def test_a_program_without_a_loop(store_url: str) -> None:
    app = App(store_url, namespace=new_id())

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    orders = app.topic("orders", int)
    jobs = [add.sync.enqueue(number, 1) for number in range(3)]
    assert orders.sync.publish(7, key="a")
    [published] = orders.sync.publish_many([orders.message(8, key="b")])
    assert isinstance(published, Published)
    asyncio.run(run_all(app))
    assert app.sync.results(jobs, timeout=10) == [1, 2, 3]
    app.sync.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_that_are_forked_after_the_first_use(store_url: str) -> None:
    if store_url.startswith("memory"):
        pytest.skip("a memory store belongs to one process")
    program = [sys.executable, "-m", "tests.integration.programs.preforked", store_url, new_id()]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
