"""One app in any mixture of event loops, short-lived ones too, of threads, plain code and forks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace import App, Job
from tests.support.waiting import wait_until

THREADS, CALLS = 8, 15


class Shop:
    """An app and its task, on one of the stores that need no server."""

    def __init__(self, url: str) -> None:
        self.app = app = App(url)

        @app.task(name="double")
        async def double(n: int) -> int:
            return 2 * n

        @app.task(name="in_thread")
        def in_thread(n: int) -> int:
            return app.sync.result(app.sync.enqueue(double.call(n)), timeout=10)

        self.double, self.in_thread = double, in_thread

    async def enqueue(self, n: int = 1) -> Job[int]:
        return await self.double.enqueue(n)

    async def enter_and_enqueue(self) -> None:
        async with self.app:
            await self.double.enqueue(1)

    def enqueue_plainly(self) -> None:
        self.app.sync.enqueue(self.double.call(1))

    def queued(self) -> int:
        return sum(queue.queued for queue in self.app.sync.admin.queues())


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop("memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}")
    yield shop
    shop.app.sync.close()


def in_threads(*functions: Callable[[], object]) -> None:
    """Call each in some threads, again and again, and raise whatever any of them raised."""
    with ThreadPoolExecutor(THREADS) as pool:
        calls = [pool.submit(functions[n % len(functions)]) for n in range(THREADS * CALLS)]
        for call in calls:
            call.result(timeout=30)


def test_short_lived_loops_in_several_threads(shop: Shop) -> None:
    in_threads(lambda: asyncio.run(shop.enqueue()))
    assert shop.queued() == THREADS * CALLS


def test_any_mixture_of_loops_and_plain_code(shop: Shop) -> None:
    in_threads(
        lambda: asyncio.run(shop.enqueue()),
        shop.enqueue_plainly,
        lambda: asyncio.run(shop.enter_and_enqueue()),
    )
    assert shop.queued() == THREADS * CALLS


async def test_a_long_lived_loop_goes_on_beside_short_lived_ones(shop: Shop) -> None:
    def elsewhere() -> None:
        in_threads(lambda: asyncio.run(shop.enqueue()), lambda: asyncio.run(shop.enter_and_enqueue()))

    await shop.enqueue()
    others = asyncio.create_task(asyncio.to_thread(elsewhere))
    while not others.done():
        await shop.enqueue()
        await asyncio.sleep(0)
    await others
    await shop.app.close()


def test_one_who_waits_is_not_disturbed_by_those_who_come_and_go(shop: Shop) -> None:
    async def outcome() -> int:
        return await (await shop.enqueue(21)).result(timeout=30)

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(asyncio.run, outcome()) for _ in range(2)]
        in_threads(lambda: asyncio.run(shop.enter_and_enqueue()), lambda: asyncio.run(shop.enqueue()))
        asyncio.run(shop.app.worker().run(burst=True))
        assert [each.result(timeout=30) for each in waiting] == [42, 42]


async def test_calls_beside_a_worker_whose_loop_comes_and_goes(shop: Shop) -> None:
    def work() -> None:
        for _ in range(5):
            asyncio.run(shop.app.worker().run(burst=True))

    def elsewhere() -> None:
        in_threads(lambda: asyncio.run(shop.enqueue()), shop.enqueue_plainly)

    await asyncio.gather(asyncio.to_thread(work), asyncio.to_thread(elsewhere))
    async with shop.app.worker():
        job = await asyncio.to_thread(asyncio.run, shop.enqueue(4))
        assert await job.result(timeout=10) == 8
        assert await (await shop.in_thread.enqueue(5)).result(timeout=10) == 10
    await shop.app.close()


def test_a_loop_that_ends_in_the_middle_of_a_call_harms_nobody(shop: Shop) -> None:
    """Neither one that cancels its tasks at its end nor one that is simply closed."""

    async def cut_off() -> None:
        task = asyncio.create_task(shop.enqueue())
        await asyncio.sleep(0)
        assert not task.cancelled()

    def closed() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(shop.enqueue())
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    before = shop.queued()
    in_threads(lambda: asyncio.run(cut_off()), lambda: asyncio.run(shop.enqueue()), closed)
    assert shop.queued() - before >= THREADS * CALLS // 3


async def test_a_call_goes_on_when_the_loop_that_first_used_the_app_ends(shop: Shop) -> None:
    bound, end = threading.Event(), threading.Event()

    async def first() -> None:
        await shop.enqueue()
        bound.set()
        await wait_until(end.is_set)

    ending = asyncio.create_task(asyncio.to_thread(asyncio.run, first()))
    await wait_until(bound.is_set)
    job = await shop.enqueue(3)
    waiting = asyncio.create_task(job.result(timeout=30))
    await asyncio.sleep(0)
    end.set()
    await ending
    async with shop.app.worker():
        assert await waiting == 6
    await shop.app.close()


FORKS = """
import asyncio, os, signal, sys, threading
from headrace import App

app = App(sys.argv[1])

@app.task
async def double(n: int) -> int:
    return 2 * n

async def enqueue():
    await double.enqueue(1)

def busy():
    while not over:
        asyncio.run(enqueue())
        app.sync.enqueue(double.call(1))

async def stay():
    async with app:
        while not over:
            await double.enqueue(1)

over = []
threads = [threading.Thread(target=each) for each in (busy, busy, lambda: asyncio.run(stay()))]
for thread in threads:
    thread.start()
children = []
for n in range(40):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        asyncio.run(enqueue())
        app.sync.enqueue(double.call(2))
        asyncio.run(enqueue())
        app.sync.close()
        os._exit(7)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
over.append(1)
for thread in threads:
    thread.join()
app.sync.close()
raise SystemExit(0 if codes == [7] * 40 else 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("url", ["memory://", "sqlite:///{folder}/jobs.db"])
async def test_forked_children_use_the_app_while_threads_of_the_parent_do(url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS, url.format(folder=tmp_path)]
    process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
    try:
        _, errors = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, errors.decode()
