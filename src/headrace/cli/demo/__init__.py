"""`headrace demo`: a small shop, a worker that is killed, and what became of the jobs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from headrace import Job, JobStatus
from headrace.cli.output.progress import ProgressBar
from headrace.cli.output.render import echo, show
from headrace.cli.output.table import Column, FittedTable
from headrace.cli.worker.event_loop import loop_factory
from headrace.core.values.whole_numbers import counted

#: How many jobs of each task.
GREETINGS, PARCELS, PICTURES, PAYMENTS, REFUNDS, REMINDERS = 5_000, 100, 6, 20, 3, 10

#: Calls of the unique task.
STOCK_CALLS = 5

#: Seconds: of the delayed jobs, until a worker is killed, and until the demo gives up.
DELAY, KILL_AFTER, GIVE_UP_AFTER = 1.5, 0.6, 50.0

#: Options of the workers. The lease is short, so that the jobs of the killed worker come back soon.
OPTIONS = ("--lease", "2", "--concurrency", "10", "--grace", "5")


#: Seconds until a schedule of every 2 s has surely run. A fast machine has done all other work by then.
FIRST_RUN = 10.0


class DemoCheck(NamedTuple):
    """One promise of headrace, what was expected, and what came."""

    what: str
    expected: str
    actual: str
    passed: bool


@click.command()
def demo() -> None:
    """Show a demo: a shop with two workers, one of them killed.

    It runs on a SQLite file of its own, asks nothing, takes about ten seconds, and fails if a promise is
    broken.

    \b
    Examples:
      headrace demo
    """
    folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    url = f"sqlite:///{folder}/shop.db"
    os.environ["HEADRACE_DEMO_STORE"] = url  # for the import of the shop, here and in the workers
    with _workers(folder) as workers, asyncio.Runner(loop_factory=loop_factory()) as runner:
        checks = runner.run(DemoRun(workers).run())
    columns = (Column("check"), Column("expected", right=True), Column("actual", right=True), Column(""))
    listing = FittedTable(*columns)
    for check in checks:
        listing.add(check.what, check.expected, check.actual, "ok" if check.passed else "FAILED")
    echo()
    show(listing)
    echo("\nThe shop is still there. Try:\n")
    for command in ("status", "dead list", "dead replay --all --yes"):
        echo(f"  headrace {command} --url {url}")
    if not all(check.passed for check in checks):
        echo(f"\nA promise was broken. The logs of the workers are in {folder}", err=True)
        sys.exit(1)


@contextmanager
def _workers(folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two worker processes, which end with the demo."""
    command = [sys.executable, "-m", "headrace", "worker", "headrace.cli.demo.shop:app", *OPTIONS]
    workers = []
    try:
        for number in (1, 2):
            with (folder / f"worker-{number}.log").open("wb") as log:
                workers.append(subprocess.Popen(command, stdout=log, stderr=log))  # nosec B603 # our own program
        yield workers
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(20)


class DemoRun:
    """What happens, step by step. The shop is imported here, when the store is known."""

    def __init__(self, workers: list[subprocess.Popen[bytes]]) -> None:
        from . import shop

        self._shop = shop
        self._app = shop.app
        self._workers = workers
        self._began = time.monotonic()

    async def run(self) -> list[DemoCheck]:
        async with self._app, asyncio.timeout(GIVE_UP_AFTER):
            await self._wait_for_workers()
            greetings, rate = await self._greet()
            jobs, payments, early = await self._enqueue_others()
            held = await self._kill(self._workers[0])
            await self._wait_for(jobs, "all other jobs")
            self._tell("everything is done: the other worker took over")
            return [
                *await self._check_ends([*greetings, *jobs], payments, held),
                _equal("delayed jobs that ran early", 0, early),
                _equal("jobs of five unique calls", 1, sum(job.task == "count_stock" for job in jobs)),
                await self._check_schedule(),
                DemoCheck("quick jobs a second", "", f"{rate:,.0f}", True),
            ]

    async def _wait_for_workers(self) -> None:
        self._tell("two workers start, on one SQLite file")
        while len(await self._app.admin.workers()) < len(self._workers):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def _greet(self) -> tuple[list[Job[Any]], float]:
        """Quick jobs; also answers how many a second."""
        self._tell(f"{GREETINGS:,} quick jobs")
        began = time.monotonic()
        jobs = await self._app.enqueue_many([self._shop.greet.call(number) for number in range(GREETINGS)])
        await self._wait_for(jobs, "quick jobs")
        return jobs, GREETINGS / (time.monotonic() - began)

    async def _enqueue_others(self) -> tuple[list[Job[Any]], list[Job[int]], int]:
        """All other jobs, the payments among them, and how many delayed ones ran before their time."""
        self._tell(f"{PARCELS} parcels to pack, {PICTURES} pictures for child processes")
        self._tell(f"{PAYMENTS} payments that fail once, {REFUNDS} refunds that always fail")
        self._tell(f"{REMINDERS} delayed jobs, {STOCK_CALLS} calls for one unique job, a schedule every 2 s")
        shop, due_at = self._shop, time.time() + DELAY
        jobs: list[Job[Any]] = await self._app.enqueue_many(
            [
                *(shop.pack.call(number) for number in range(PARCELS)),
                *(shop.thumbnail.call(number) for number in range(PICTURES)),
                *(shop.refund.call(number) for number in range(REFUNDS)),
                *(shop.remind.call(number).with_(delay=DELAY) for number in range(REMINDERS)),
            ]
        )
        payments = await self._app.enqueue_many([shop.charge.call(number) for number in range(PAYMENTS)])
        # In one step: on a busy machine the first job could end before the last call.
        calls = await self._app.enqueue_many([shop.count_stock.call() for _ in range(STOCK_CALLS)])
        unique = {job.id: job for job in calls}
        statuses = [await job.status() for job in jobs if job.task == "remind"]
        early = sum(status.over for status in statuses) if time.time() < due_at else 0
        return [*jobs, *payments, *unique.values()], payments, early

    async def _kill(self, worker: subprocess.Popen[bytes]) -> list[str]:
        """End a worker as the kernel does when memory runs out. Answers which jobs it held."""
        await asyncio.sleep(KILL_AFTER)
        worker.kill()
        worker.wait(10)
        running = await self._app.admin.jobs(state=JobStatus.RUNNING, limit=1000)
        held = [job.id for job in running if f":{worker.pid}:" in job.worker]
        self._tell(f"kill -9 of worker {worker.pid}: it held {counted(len(held), 'job')}")
        return held

    async def _check_ends(
        self, jobs: list[Job[Any]], payments: list[Job[int]], held: list[str]
    ) -> list[DemoCheck]:
        ends = {job.id: await job.status() for job in jobs}
        succeeded = sum(status is JobStatus.SUCCEEDED for status in ends.values())
        dead = sum(status is JobStatus.DEAD for status in ends.values())
        retried = [await job.result() > 1 for job in payments]
        recovered = [ends[id] in (JobStatus.SUCCEEDED, JobStatus.DEAD) for id in held]
        return [
            _equal("jobs that ended", len(jobs), succeeded + dead),
            _equal("jobs that were lost", 0, len(jobs) - succeeded - dead),
            _equal("jobs that succeeded", len(jobs) - REFUNDS, succeeded),
            _equal("dead letters", REFUNDS, dead),
            _equal("payments that were retried", PAYMENTS, sum(retried)),
            _equal("jobs recovered from the killed worker", max(1, len(held)), sum(recovered)),
        ]

    async def _check_schedule(self) -> DemoCheck:
        until = time.monotonic() + FIRST_RUN
        # There is no event to wait for: a worker, which is another process, enqueues the job.
        while not (fired := len(await self._app.admin.jobs("upkeep"))) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        most = int((time.monotonic() - self._began) / 2) + 1
        return DemoCheck(
            "runs of the schedule, by two workers", f"1 to {most}", f"{fired}", 1 <= fired <= most
        )

    async def _wait_for(self, jobs: list[Job[Any]], what: str) -> None:
        with ProgressBar(f"         {what}", len(jobs)) as progress:
            for job in jobs:
                await job.wait()
                progress.done(1)

    def _tell(self, text: str) -> None:
        echo(f"{time.monotonic() - self._began:5.1f} s  {text}")


def _equal(what: str, expected: int, actual: int) -> DemoCheck:
    return DemoCheck(what, f"{expected:,}", f"{actual:,}", actual == expected)
