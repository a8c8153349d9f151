"""What happens in the demo, from the first job to the last, and what was seen of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from headrace import Job, JobStatus

from . import shop
from .crew import Crew
from .stage import Stage

#: How many of each.
GREETINGS, PARCELS, PICTURES, PAYMENTS, REFUNDS, REMINDERS, STOCK_CALLS = 5_000, 100, 6, 20, 3, 10, 5

#: Seconds: of delay, until one worker is killed, between looks, and until the demo gives up.
REMIND_AFTER, HALF_WAY, LOOK, PATIENCE = 1.5, 0.6, 0.1, 50.0


class Seen(msgspec.Struct):
    """The figures that the promise is held against."""

    enqueued: int = 0
    succeeded: int = 0
    dead: int = 0
    lost: int = 0
    unique: int = 0  # jobs that came of the calls for one unique job
    early: int = 0  # reminders that ran before their time
    retried: int = 0
    recovered: int = 0
    in_hand: int = 0  # jobs of the killed worker
    tidied: int = 0
    tidied_twice: int = 0
    rate: float = 0.0
    seconds: float = 0.0


async def play(crew: Crew, stage: Stage) -> Seen:
    """The demo itself."""
    began = time.monotonic()
    seen = Seen()
    async with shop.app:
        stage.say("two workers start, on one SQLite file")
        victim, _ = crew.start(), crew.start()
        await _until(lambda: len(shop.diary.read("started")) == 2, "the workers did not start")
        greetings = await _greet(seen, stage)
        jobs = await _enqueue_the_rest(seen, stage)
        await _kill(victim, crew, seen, stage)
        await _watch(jobs, stage)
        stage.say("everything is done; the other worker took over what was left")
        await _count([*greetings, *jobs], seen)
    seen.seconds = time.monotonic() - began
    return seen


async def _greet(seen: Seen, stage: Stage) -> list[Job[Any]]:
    began = time.monotonic()
    jobs = await shop.app.enqueue_many([shop.greet.call(number) for number in range(GREETINGS)])
    stage.say(f"{GREETINGS:,} quick jobs enqueued in {time.monotonic() - began:.2f} s")
    began = time.monotonic()
    with stage.bar("quick jobs", GREETINGS) as bar:
        while (left := await _left("mails")) > 0:
            bar.reached(GREETINGS - left)
            await asyncio.sleep(LOOK / 4)
        bar.reached(GREETINGS)
    seen.rate = GREETINGS / (time.monotonic() - began)
    return jobs


async def _left(queue: str) -> int:
    queues = {each.name: each for each in await shop.app.admin.queues()}
    found = queues[queue]
    return found.queued + found.running + found.retrying


async def _enqueue_the_rest(seen: Seen, stage: Stage) -> list[Job[Any]]:
    due = time.time() + REMIND_AFTER
    jobs = await shop.app.enqueue_many(
        [
            *(shop.pack.call(number) for number in range(PARCELS)),
            *(shop.thumbnail.call(number) for number in range(PICTURES)),
            *(shop.charge.call(number) for number in range(PAYMENTS)),
            *(shop.refund.call(number) for number in range(REFUNDS)),
            *(shop.remind.call(number).with_(delay=REMIND_AFTER) for number in range(REMINDERS)),
        ]
    )
    stock = [await shop.count_stock.enqueue() for _ in range(STOCK_CALLS)]
    distinct = {job.id: job for job in stock}
    seen.unique = len(distinct)
    reminders = [job for job in jobs if job.task == "remind"]
    statuses = await asyncio.gather(*(job.status() for job in reminders))
    if time.time() < due:
        seen.early = sum(status.over for status in statuses)
    stage.say(f"{PARCELS} parcels to pack, {PICTURES} pictures for child processes")
    stage.say(f"{PAYMENTS} payments that fail once, {REFUNDS} hopeless refunds")
    stage.say(f"{REMINDERS} delayed jobs, {STOCK_CALLS} calls for one unique job, one schedule every 2 s")
    return [*jobs, *distinct.values()]


async def _kill(victim: int, crew: Crew, seen: Seen, stage: Stage) -> None:
    began = time.monotonic()

    def busy() -> bool:
        runs = [line for line in shop.diary.read("run") if line["pid"] == victim]
        return bool(runs) and time.monotonic() - began > HALF_WAY

    await _until(busy, "the worker to be killed got no job")
    crew.kill(victim)
    runs = [line["id"] for line in shop.diary.read("run") if line["pid"] == victim]
    records = [await shop.app.job(id, queue="default").status() for id in runs]
    seen.in_hand = sum(status is JobStatus.RUNNING for status in records)
    stage.say(f"kill -9 of worker {victim}: {seen.in_hand} jobs were in its hands")


async def _watch(jobs: list[Job[Any]], stage: Stage) -> None:
    ended = 0

    async def wait(job: Job[Any]) -> None:
        nonlocal ended
        await job.wait(PATIENCE)
        ended += 1
        bar.reached(ended)

    with stage.bar("everything else", len(jobs)) as bar:
        await asyncio.gather(*(wait(job) for job in jobs))


async def _count(jobs: list[Job[Any]], seen: Seen) -> None:
    statuses = await asyncio.gather(*(job.status() for job in jobs))
    seen.enqueued = len(jobs)
    seen.succeeded = statuses.count(JobStatus.SUCCEEDED)
    seen.dead = statuses.count(JobStatus.DEAD)
    seen.lost = len(jobs) - statuses.count(JobStatus.SUCCEEDED) - seen.dead
    recovered = shop.diary.read("recovered")
    seen.recovered = len({line["id"] for line in recovered})
    # A payment that the killed worker held has its second attempt without having failed.
    again = [*shop.diary.read("retrying"), *recovered]
    seen.retried = len({line["id"] for line in again if line["task"] == "charge"})
    tidied = [line["id"] for line in shop.diary.read("tidied")]
    seen.tidied, seen.tidied_twice = len(tidied), len(tidied) - len(set(tidied))


async def _until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]], complaint: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint)
        await asyncio.sleep(LOOK / 4)
