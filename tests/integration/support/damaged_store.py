"""A store with healthy and other work in it, which a test then damages, and what must go on all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext, suppress
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
from click.testing import CliRunner

from headrace import App, HeadraceError, Limit, signals
from headrace.cli.main import cli
from headrace.core.messages.claim import Report
from headrace.core.messages.event_envelope import EventEnvelope
from headrace.core.messages.message import (
    ENVELOPE_VERSION,
    FRESH,
    Message,
    Stream,
    TrailEntry,
    UniqueKey,
    encode_envelope,
    group_stream,
)
from headrace.core.messages.outcome import Dead, DeadReason, Done, Failure, Kept, Retry
from headrace.core.records.record import DeadLetter, RunningJob, WorkerInfo
from headrace.core.records.traffic import TrafficCount
from headrace.core.runtime.clock import MovableClock, microseconds
from headrace.core.schedules.schedule import Schedule, Template, Timing, encode_schedule
from headrace.core.schedules.schedule_record import add as add_schedule
from headrace.core.schedules.schedule_record import establish
from headrace.core.topics.topic import BEGINNING
from headrace.dashboard import asgi
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.kit.heartbeats import beat
from tests.integration.support.limited_content import (
    CONSTRAINED,
    OTHER,
    PARTED,
    PAUSED,
    WORK,
    append,
    append_constrained,
    append_victims,
    claim,
    declare_limits,
    end,
    end_recorded,
    hold_constrained,
    job,
)
from tests.support.routers import open_router
from tests.support.waiting import wait_until

#: Seconds: of the leases in the store, until what is scheduled is due, and by which the clock is moved.
LEASE, DELAY, PASSED = 30.0, 20.0, 40.0

TOPIC, GROUP = Stream("topic", "orders"), group_stream("orders", "billing")

#: What is put in place of something.
Value = bytes | bytearray | int | None


# --- what is in the store --------------------------------------------------------------------------------


def event(id: str, key: str, **options: Any) -> Message:
    envelope = EventEnvelope(ENVELOPE_VERSION, id, "?", 1, None, None, msgspec.msgpack.encode(id), key=key)
    return Message(id, "?", encode_envelope(envelope), key=key, **options)


async def fill(backend: StreamRouter) -> None:
    for stream in (WORK, OTHER, PAUSED, PARTED):
        await backend.declare_stream(stream, microseconds(LEASE))
    await declare_limits(backend)
    await hold_constrained(backend)
    await end_recorded(backend, WORK, "victim")
    for stream in (WORK, OTHER):
        await end_recorded(backend, stream, f"healthy-{stream.name}")
        await append(backend, stream, job(f"healthy-{stream.name}-held"))
        if stream is WORK:
            await append(backend, stream, job("victim-held", unique=UniqueKey("v"), priority=0))
        held = await claim(backend, stream)
        await backend.report_progress([Report(claim, 0.5, "half") for claim in held])
        await end(backend, stream, job(f"healthy-{stream.name}-again"), _retry())
        if stream is WORK:
            await _end_victims(backend)
        await append(
            backend,
            stream,
            job(f"healthy-{stream.name}-queued"),
            job(f"healthy-{stream.name}-due", delay_us=microseconds(DELAY)),
        )
    await append(
        backend,
        WORK,
        job("victim-queued"),
        job("victim-due", delay_us=microseconds(DELAY), unique=UniqueKey("d", "elapsed", microseconds(3600))),
        job("victim-late", lifetime_us=microseconds(DELAY)),
    )
    await backend.cancel(
        WORK, (await append(backend, WORK, job("victim-cancelled")))[0], ttl_us=microseconds(3600)
    )
    for stream in (WORK, OTHER):
        await append_constrained(backend, stream, f"healthy-{stream.name}")
    await append_victims(backend)
    await _publish(backend)
    await backend.swap_schedules([establish(OTHER, "often")])
    victim = Schedule(
        "victim", "work", Timing(every_us=microseconds(10)), Template("note", b"\x91\x91\xa4tock")
    )
    await backend.swap_schedules([add_schedule(WORK, "victim", encode_schedule(victim))])
    await backend.count_traffic([TrafficCount(WORK, 3, 2, 1)])
    running = (RunningJob("victim-held", "note", 1),)
    await beat(
        backend, WorkerInfo("gone", "host", 1, 1, ("work", "other"), 10, 1, running, (GROUP.name,), ("t",))
    )


async def _end_victims(backend: StreamRouter) -> None:
    await end(backend, WORK, job("victim-again"), _retry())
    await end(
        backend,
        WORK,
        job("victim-dead"),
        Dead(FRESH, DeadReason.EXHAUSTED, Failure("ValueError", "no", "Traceback")),
    )
    await end(backend, WORK, job("victim-done"), Done(Kept(b"\x07", microseconds(3600), "fine")))


async def _publish(backend: StreamRouter) -> None:
    await backend.join(GROUP, BEGINNING, ordered=True)
    await append(
        backend,
        TOPIC,
        event("victim-event", "v"),
        event("victim-event-parked", "v"),
        event("victim-event-2", ""),
    )
    await claim(backend, GROUP)
    later = event("victim-event-due", "", delay_us=microseconds(DELAY))
    await append(
        backend,
        TOPIC,
        event("victim-event-3", "v"),
        later,
        event("healthy-event", "h"),
        event("healthy-event-2", "h"),
    )


def _retry() -> Retry:
    return Retry(FRESH.failed(TrailEntry(1, "failed", "gone", "no")), microseconds(DELAY))


#: Columns with numbers that belong to what is healthy, and the rows that these numbers are made in.
HEALTHY_NUMBERS = {
    "constraints": "constraints WHERE content LIKE '%healthy%'",
    "stream": "streams WHERE name = 'other'",
}


def is_healthy(row: dict[str, object], numbers: dict[str, set[Any]]) -> bool:
    """Whether a row belongs to what is healthy: by what is in it, or by a number of `HEALTHY_NUMBERS`."""
    contents = [each for each in row.values() if isinstance(each, (bytes, memoryview))]
    return (
        any("healthy" in each or each in ("other", "often") for each in row.values() if isinstance(each, str))
        or any(b"healthy" in bytes(each) for each in contents)
        or any(row.get(name) in healthy for name, healthy in numbers.items())
    )


# --- the shop that works on it ---------------------------------------------------------------------------


class Shop:
    """An app on the store, and what its handlers were given."""

    def __init__(self, url: str, clock: MovableClock) -> None:
        self._url, self._clock = url, clock
        self.app = App(url, clock=clock)
        self.seen: list[str] = []
        self.errors: list[str] = []

        @self.app.task(name="note", queue="work")
        async def note(id: str) -> None:
            self.seen.append(id)

        limit = Limit("healthy-limit", rate="1000/s", burst=100, max_running=5)

        @self.app.task(name="elsewhere", queue="other", limits=[limit])
        async def elsewhere() -> None: ...

        @self.app.task(name="bury", queue="other")
        async def bury(id: str, task: str, queue: str, reason: str, error: str) -> None: ...

        for queue in ("work", "other"):  # a worker relays the outboxes of queues that call a task at a death
            self.app.queue(queue, on_dead=bury)

        @self.app.every(10, name="often", catch_up="one")
        @self.app.task(name="tick", queue="other")
        async def tick() -> None:
            self.seen.append("tick")

        @self.app.topic("orders", str).subscribe(group="billing", ordered=True)
        async def bill(id: str) -> None:
            self.seen.append(id)

        @self.app.on(signals.BackendError)
        def hear(signal: signals.BackendError) -> None:
            self.errors.append(f"{signal.service}: {signal.error}")

    async def work(self, expected: Iterable[str]) -> None:
        """Have a worker run until it has done all of this."""
        wanted = set(expected)
        await self._reclaim()
        async with self.app.worker(lease=LEASE, grace=1):
            await wait_until(lambda: wanted <= set(self.seen), timeout=8, message=self._left(wanted))

    async def _reclaim(self) -> None:
        """At once, where workers on a server wait a moment before they look."""
        backend = open_router(self._url, clock=self._clock)
        await backend.open()
        try:
            await backend.reclaim([stream for stream in (WORK, GROUP, OTHER)], limit=100)
        finally:
            await backend.close()

    def _left(self, wanted: set[str]) -> Any:
        return lambda: f"left: {sorted(wanted - set(self.seen))}; errors: {self.errors[-3:]}"


HEALTHY = [
    *(
        f"healthy-{stream.name}-{kind}"
        for stream in (WORK, OTHER)
        for kind in ("held", "again", "queued", "due", *CONSTRAINED)
    ),
    "healthy-event",
    "healthy-event-2",
    "tick",
]

#: What must go on even when the queue `work` and the topic themselves are damaged.
ELSEWHERE = [each for each in HEALTHY if "other" in each or each == "tick"]


async def look(app: App, url: str, *, structural: bool = False) -> None:
    """Everything that people look with. Nothing fails; only what is damaged itself may be refused, with an
    error that says so."""
    admin = app.admin
    looks: list[Callable[[], Awaitable[object]]] = [
        admin.queues,
        admin.topics,
        admin.workers,
        admin.traffic,
        admin.doctor,
        admin.limits,
        app.schedules.list,
        lambda: _look_at_jobs(app, "work"),
        lambda: _look_at_jobs(app, "other"),
        lambda: admin.jobs(topic="orders", group="billing"),
        lambda: _read_all(app),
        lambda: look_at_pages(app, structural=structural),
        lambda: asyncio.to_thread(look_by_commands, url),
    ]
    for each in looks:
        try:
            await each()
        except HeadraceError:
            if not structural:
                raise


async def _look_at_jobs(app: App, queue: str) -> None:
    for info in await app.admin.jobs(queue):
        await app.admin.job(info.id)
        await app.admin.contents(info.id)


async def _read_all(app: App) -> None:
    async for _ in app.admin.tail("orders", since="beginning", follow=False):
        pass


PAGES = (
    *("/", "/queues/work", "/queues/other", "/topics/orders/billing", "/dead", "/schedules"),
    *("/topics", "/workers", "/metrics", "/limits"),
    *("/limit?name=victim-limit", "/queues/work?state=succeeded", "/queues/parted"),
)


async def look_at_pages(app: App, *, structural: bool) -> None:
    allowed = (200, 404, 503) if structural else (200, 404)
    jobs = [f"/job?queue=work&id={quote(letter.id)}" for letter in await app.admin.dead()]
    transport = httpx.ASGITransport(app=asgi(app), client=("127.0.0.1", 4711), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8400") as client:
        for path in (*PAGES, *jobs):
            answer = await client.get(path)
            assert answer.status_code in allowed, (path, answer.status_code, answer.text[-500:])


COMMANDS = (
    *("status", "jobs --queue work", "jobs --queue work --state succeeded", "dead", "topics"),
    *("schedules", "workers", "limits", "doctor"),
)


def look_by_commands(url: str) -> None:
    for words in COMMANDS:
        run(url, *words.split())


def run(url: str, *words: str) -> str:
    """What a command prints; it may fail, but never with a traceback."""
    result = CliRunner().invoke(cli, [*words, "--url", url], prog_name="headrace")
    assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exception)
    return result.output


async def check(url: str, *, structural: bool) -> None:
    """Look at a store that was damaged, work on it, and look at what has become of it."""
    clock = MovableClock()
    clock.advance(PASSED)
    shop = Shop(url, clock)
    try:
        async with asyncio.timeout(30), shop.app:
            await look(shop.app, url, structural=structural)
            with suppress(HeadraceError) if structural else nullcontext():
                await shop.work(ELSEWHERE if structural else HEALTHY)
            assert structural or shop.errors == []
            with suppress(HeadraceError) if structural else nullcontext():
                for letter in await dead_letters(shop.app):
                    await shop.app.admin.job(letter.id)
                await shop.app.admin.discard(queue="work")
    finally:
        await shop.app.close()


async def dead_letters(app: App) -> list[DeadLetter]:
    return [*await app.admin.dead()]
