"""The program that comes to harm: short parts, which together pass through every kind of call. The tasks and
topics are here; `parts/` has what is done with them.

Each part ends by itself in about a second. Every process of a round imports this module, children too."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from headrace import (
    AppClosed,
    Delivery,
    Event,
    Job,
    Limit,
    Published,
    RetryPolicy,
    Topic,
    Worker,
    current_job,
)
from tests.torture.crash_points.point import LEASE_SECONDS
from tests.torture.facts import Plan
from tests.torture.program import FOLDER, PlannedFailure, Program

T = TypeVar("T")

program = Program.from_environment(rate=1.0)
app = program.app

#: Seconds of the leases of all workers: short where a process is killed and others wait for its leases.
LEASE: Final = float(os.environ.get(LEASE_SECONDS, "10"))

#: Seconds between two jobs of the schedule.
OFTEN: Final = 0.3

#: A file in the folder of the logs. When it is there, the jobs that fail for ever succeed, and the long ones
#: are short.
MENDED: Final = "mended"

RETRIES: Final = 2
POLICY: Final = RetryPolicy.fixed(RETRIES, 0.02)

app.queue("wide", partitions=2)
app.queue("broken-wide", partitions=2)
app.queue("kept", dead_limit=1, on_dead="mourn")


@app.task(retry=POLICY)
async def work(message: str, nap: float = 0.0, fails: int = 0) -> str:
    with program.running(message) as attempt:
        if nap:
            await current_job().progress(0.5, "half")
            await asyncio.sleep(_nap(nap))
        if attempt <= fails:
            raise PlannedFailure(f"as planned, in attempt {attempt}")
    return message


@app.task(retry=POLICY, queue="wide")
async def work_in_parts(message: str) -> str:
    return await work(message)


@app.task(retry=POLICY, queue="purged")
async def purged(message: str) -> str:
    return await work(message)


@app.task(retry=POLICY, queue="limited", limits=[Limit("narrow", max_running=1)], max_running=3)
async def limited(message: str) -> str:
    return await work(message)


@app.task(retry=POLICY, queue="ordered", ordered_by="key")
async def ordered(message: str, key: int = 0) -> str:
    return await work(message)


@app.task(retry=POLICY, queue="replaced", on_duplicate="replace")
async def replaced(message: str) -> str:
    return await work(message)


@app.task(retry=POLICY, queue="cleaned")
async def cleaned(message: str) -> str:
    return await work(message)


@app.task(queue="kept", retry=RetryPolicy.none())
async def kept(message: str) -> str:
    return await broken(message)


@app.task(name="mourn", queue="mourned", retry=POLICY)
async def mourn(id: str, task: str, queue: str, reason: str, error: str) -> None:
    """Its jobs come from the store, not from the program, which does not write them down."""


@app.task(retry=POLICY, timeout=0.1)
async def overrun(message: str) -> str:
    late = current_job().attempt == 1
    with program.running(message):
        await asyncio.sleep(10.0 if late else 0.0)
    return message


@app.task(retry=POLICY)
def in_thread(message: str, nap: float = 0.0) -> str:
    with program.running(message):
        time.sleep(_nap(nap))
    return message


@app.task(retry=POLICY, run_in="process", queue="cpu")
def in_process(message: str, nap: float = 0.0) -> str:
    with program.running(message):
        time.sleep(_nap(nap))
    return message


@app.task(queue="broken", retry=RetryPolicy.none())
async def broken(message: str) -> str:
    """Fails until it is mended. A replay counts attempts anew, so they are not written down."""
    with program.running(message, id=current_job().id):
        if not is_mended():
            raise PlannedFailure("as planned, until it is mended")
    return message


@app.task(queue="broken-wide", retry=RetryPolicy.none())
async def broken_in_parts(message: str) -> str:
    return await broken(message)


@app.task(queue="ticks", retry=POLICY)
async def tick() -> None:
    message = f"tick/{current_job().id}"
    plan = Plan(schedule="tick", every=OFTEN, catches_up=True, attempts=RETRIES + 1)
    program.invoke(message, plan)
    with program.running(message):
        await asyncio.sleep(0)


app.every(OFTEN, catch_up="all", name="tick")(tick)


@app.task(queue="wide", retry=POLICY)
async def shifted() -> None:
    """Its schedule is another one in the first process of a round than in those after it, and its queue has
    parts."""
    message = f"shifted/{current_job().id}"
    program.invoke(message, Plan(attempts=RETRIES + 1, schedule="shifted", every=OFTEN))
    with program.running(message):
        await asyncio.sleep(0)


app.every(OFTEN if program.recorder.process == "first" else 0.35, name="shifted")(shifted)

#: The message of each job that this process has sent.
messages: Final[dict[str, str]] = {}


class News(msgspec.Struct):
    message: str
    fails: int = 0


orders: Topic[News] = app.topic("orders", News)
wide: Topic[News] = app.topic("wide", News, partitions=2)
sales: Topic[News] = app.topic("shop.sales", News)

GROUPS: Final = {
    "orders": ("ordered", "batch", "manual", "feed"),
    "wide": ("ordered-wide", "again"),
    "shop.sales": ("found",),
}


async def _handle(event: Event[News], group: str) -> None:
    with program.running(event.payload.message, group=group) as attempt:
        await asyncio.sleep(0)
        if attempt <= event.payload.fails:
            raise PlannedFailure(f"as planned, in attempt {attempt}")


@orders.subscribe("ordered", ordered=True, start="beginning", retry=POLICY)
async def in_order(event: Event[News]) -> None:
    await _handle(event, "ordered")


@wide.subscribe("ordered-wide", ordered=True, start="beginning", retry=POLICY)
async def in_order_of_parts(event: Event[News]) -> None:
    await _handle(event, "ordered-wide")


@orders.subscribe("batch", batch=5, start="beginning", retry=POLICY)
async def in_batches(events: list[Event[News]]) -> None:
    for event in events:
        with program.running(event.payload.message, group="batch", id=event.id):
            await asyncio.sleep(0)


@orders.subscribe("manual", ack="manual", start="beginning", retry=POLICY)
async def by_hand(delivery: Delivery[News]) -> None:
    await _handle(delivery.event, "manual")
    await delivery.ack()


@wide.subscribe("again", start="beginning", retry=POLICY)
async def again(event: Event[News]) -> None:
    with program.running(event.payload.message, group="again", id=event.id):
        await asyncio.sleep(0)


@orders.subscribe(fan_out=True)
async def everywhere(event: Event[News]) -> None:
    with program.running(event.payload.message, group=f"fan-out {os.getpid()}"):
        await asyncio.sleep(0)


@wide.subscribe(fan_out=True)
async def everywhere_in_parts(event: Event[News]) -> None:
    await everywhere(event)


@sales.subscribe("receipt", ack="receipt", start="beginning")
async def on_receipt(event: Event[News]) -> None:
    """A crash loses what it has received, so nothing is promised."""


@app.topics("shop.*", News).subscribe("found", start="beginning", retry=POLICY)
async def found(event: Event[News]) -> None:
    await _handle(event, "found")


@app.task(queue="fed", retry=POLICY)
async def fed(news: News) -> None:
    with program.running(news.message, group="feed", id=current_job().id.partition(":")[0]):
        await asyncio.sleep(0)


orders.feed(fed, group="feeder", start="beginning")


def _folder() -> Path:
    return Path(os.environ[FOLDER])


def note_replay(group: str) -> None:
    """A group is about to read everything again."""
    program.recorder.write("replayed", group=group)


def note_end(*ids: str) -> None:
    """Jobs are about to be purged or discarded."""
    for id in ids:
        program.recorder.write("cancelled", job=id, value="uncertain")


async def cancelled(job: Job[Any]) -> None:
    """Cancel a job. The process may be killed between the end of the job and the answer."""
    note_end(job.id)
    await survived(program.cancel(messages[job.id], job))


def mend() -> None:
    (_folder() / MENDED).touch()


def is_mended() -> bool:
    return (_folder() / MENDED).exists()


def _nap(seconds: float) -> float:
    """Long jobs are there to be interrupted. When others clean up, they are short."""
    return min(seconds, 0.05) if is_mended() else seconds


async def stopped(worker: Worker) -> None:
    """Stop a worker whose jobs run. They are handed back."""
    recorder, run = program.recorder, program.recorder.new_run()
    recorder.write("fault_begun", value="stopped", run=run, targets=(recorder.process,), gentle=True)
    await survived(worker.stop())
    recorder.write("fault_ended", value="stopped", run=run)


def note_groups() -> None:
    for topic, groups in GROUPS.items():
        for group in groups:
            program.recorder.write("group", group=group, value=topic)


# --- calls that may be cancelled ------------------------------------------------------------------------


async def survived(call: Awaitable[T]) -> T | None:
    """Await a call. None: it was cancelled, as a point demands, and the program goes on. The task that was
    cancelled may be one inside of the call, or one in the thread of the app, which gives `AppClosed`."""
    task = asyncio.current_task()
    assert task is not None
    try:
        answer = await call
        if task.cancelling():  # just when the call had its answer: what comes next must not be cancelled
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            task.uncancel()
        return answer
    except AppClosed:
        return None
    except asyncio.CancelledError:
        if task.cancelling():
            task.uncancel()
        return None


async def sent(plan: Plan, make: Any, *args: Any, **options: Any) -> Job[Any] | None:
    """Enqueue a job of `make` with a new message as its first argument, and write down what became of it."""
    message = program.new_message()
    program.invoke(message, plan)
    job = await survived(app.enqueue(make.with_(**options).call(message, *args)))
    if job is None:
        program.recorder.write("uncertain", message=message, value="cancelled")
    else:
        _accept(message, job)
    return job


async def sent_many(plan: Plan, make: Any, number: int) -> list[Job[Any]]:
    """Enqueue many at once."""
    names = [program.new_message() for _ in range(number)]
    for message in names:
        program.invoke(message, plan)
    jobs = await survived(app.enqueue_many([make.call(message) for message in names]))
    for index, message in enumerate(names):
        if jobs is None:
            program.recorder.write("uncertain", message=message, value="cancelled")
        else:
            _accept(message, jobs[index])
    return jobs or []


async def published(topic: Topic[News], number: int = 1, *, fails: int = 0, **options: Any) -> None:
    """Publish events, one with `publish`, more with `publish_many`."""
    chosen = [_next_event(topic, options) for _ in range(number)]
    for message, promise in chosen:
        program.invoke(message, promise)
    if number == 1:
        id = await survived(topic.publish(News(chosen[0][0], fails), **options))
        _note_published(chosen[0][0], id)
        return
    drafts = [topic.message(News(message, fails), **options) for message, _ in chosen]
    outcomes = await survived(topic.publish_many(drafts))
    for index, (message, _) in enumerate(chosen):
        outcome = outcomes[index] if outcomes else None
        _note_published(message, outcome.id if isinstance(outcome, Published) else None)


def _next_event(topic: Topic[News], options: dict[str, Any]) -> tuple[str, Plan]:
    key, message = options.get("key", ""), program.new_message()
    position = int(message.rpartition(".")[2])
    delay = options.get("delay", 0.0)
    return message, Plan(topic=topic.name, key=key, position=position, delay=delay, attempts=RETRIES + 1)


def _note_published(message: str, id: str | None) -> None:
    if id is None:
        program.recorder.write("uncertain", message=message, value="cancelled")
    else:
        program.accept(message, id)


def _accept(message: str, job: Job[Any]) -> None:
    program.accept(message, job.id, duplicate=job.duplicate)
    messages.setdefault(job.id, message)


def plan(**promises: Any) -> Plan:
    return Plan(**{"attempts": RETRIES + 1, "result": True, **promises})
