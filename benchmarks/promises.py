"""What else is promised of Redis: how late, how idle, how indifferent to a backlog, how short on the server.

Looks at the server over a connection of its own (`raw.Wire`), whose commands are not counted.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import urlsplit

from headrace import App

from .raw import Wire

Figures = dict[str, float]

#: Scripts that are faster, in microseconds, are only counted.
SLOW_FROM = 500

#: Of a scale of 1: jobs to drain, and how many wait behind them.
DRAINED, BEHIND = 50_000, 950_000
DRAINS = 5
PORTION = 50_000

#: What the looking itself sends.
_LOOKING = frozenset({"info", "config|resetstat", "config|set", "config", "slowlog|get", "slowlog"})


class Place:
    """An app on the server, with a task that counts and one that says when it began."""

    def __init__(self, url: str, wire: Wire, scale: float) -> None:
        self.app = App(url)
        self.wire = wire
        self.scale = scale
        self.done = 0
        self.awaited = 0
        self.reached = asyncio.Event()
        self.late: list[float] = []
        self.expected = 0

        @self.app.task(name="count")
        async def count() -> None:
            self.done += 1
            if self.done == self.awaited:
                self.reached.set()

        @self.app.task(name="on_time")
        async def on_time(due: float) -> None:
            self.late.append((time.time() - due) * 1000)
            if len(self.late) == self.expected:
                self.reached.set()

        self.count, self.on_time = count, on_time

    def amount(self, number: int) -> int:
        return max(10, int(number * self.scale))

    async def enqueue(self, number: int) -> None:
        for start in range(0, number, PORTION):
            await self.app.enqueue_many([self.count.call() for _ in range(min(PORTION, number - start))])

    async def drain(self, number: int) -> float:
        """Seconds until so many are done, the start of the worker included."""
        self.done, self.awaited = 0, number
        self.reached.clear()
        began = time.perf_counter()
        async with self.app.worker():
            await self.reached.wait()
            return time.perf_counter() - began

    async def calls(self) -> dict[str, int]:
        """How often each command was called, in scripts or not, but for the looking itself."""
        text = (await self.wire.send([("INFO", "commandstats")]))[0].decode()
        counts = {}
        for line in text.splitlines():
            name, _, facts = line.partition(":")
            if name.startswith("cmdstat_"):
                counts[name.removeprefix("cmdstat_")] = int(facts.split(",")[0].removeprefix("calls="))
        return {name: number for name, number in counts.items() if name not in _LOOKING}


async def lateness(place: Place) -> Figures:
    """Delayed jobs on an idle queue: from when they are due until their first line."""
    place.expected = place.amount(200)
    async with place.app.worker():
        for _ in range(place.expected):
            due = time.time() + random.uniform(0.5, 3)
            await place.on_time.with_(at=datetime.fromtimestamp(due, UTC)).enqueue(due)
        async with asyncio.timeout(30):
            await place.reached.wait()
    cuts = statistics.quantiles(place.late, n=100)
    return {"late p50, ms": cuts[49], "late p99, ms": cuts[98], "earliest, ms": min(place.late)}


async def idleness(place: Place) -> Figures:
    """What a worker with nothing to do asks of the server, those inside scripts counted."""
    seconds = max(5.0, 20 * place.scale)
    async with place.app.worker():
        await asyncio.sleep(2)  # the beginnings
        before = sum((await place.calls()).values())
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        sent = sum((await place.calls()).values()) - before
        return {"idle, commands a second": sent / (time.perf_counter() - began)}


async def backlog(place: Place) -> Figures:
    """A drain with nothing behind it, and the same with nineteen times as many behind it. Each takes a third
    of a second, so it is the middle one of several."""
    number = place.amount(DRAINED)
    alone, before = [], []
    for _ in range(DRAINS):
        await place.enqueue(number)
        alone.append(number / await place.drain(number))
    await place.enqueue(DRAINS * number + place.amount(BEHIND))
    for _ in range(DRAINS):
        before.append(number / await place.drain(number))
    await place.wire.send([("FLUSHALL",)])
    return {"drain alone": statistics.median(alone), "drain before a backlog": statistics.median(before)}


async def script_times(place: Place) -> Figures:
    """How long scripts take on the server while it is written to and drained at once."""
    await place.wire.send(
        [
            ("CONFIG", "SET", "slowlog-log-slower-than", str(SLOW_FROM)),
            ("CONFIG", "SET", "slowlog-max-len", "100000"),
            (
                "CONFIG",
                "RESETSTAT",
            ),
            ("SLOWLOG", "RESET"),
        ]
    )
    end = time.perf_counter() + max(3.0, 20 * place.scale)

    async def one_by_one() -> None:
        while time.perf_counter() < end:
            await place.count.enqueue()

    async def in_bulk() -> None:
        while time.perf_counter() < end:
            await place.enqueue(2_000)

    async with place.app.worker():
        await asyncio.gather(in_bulk(), *(one_by_one() for _ in range(20)))
        calls = await place.calls()
        [slow] = await place.wire.send([("SLOWLOG", "GET", "100000")])
    return {"scripts p99.9, ms": _percentile(slow, calls.get("evalsha", 0)) / 1000}


def _percentile(slow: list[list[object]], total: int) -> float:
    """The 99.9th: of a thousand calls one takes longer. Below SLOW_FROM none is known."""
    times = sorted(
        (entry[2] for entry in slow if isinstance(entry[2], int) and _is_script(entry[3])), reverse=True
    )
    above = total // 1000
    return times[above] if above < len(times) else SLOW_FROM


def _is_script(words: object) -> bool:
    return isinstance(words, list) and bytes(words[0]).upper() == b"EVALSHA"


MEASURES: tuple[Callable[[Place], Awaitable[Figures]], ...] = (lateness, idleness, backlog, script_times)


async def promises(url: str, scale: float) -> Figures:
    """Every one of them, each on an empty server."""
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    loop = asyncio.get_running_loop()
    _, wire = await loop.create_connection(Wire, place.hostname, place.port)
    figures: Figures = {}
    try:
        for measure in MEASURES:
            await wire.send([("FLUSHALL",)])
            stage = Place(url, wire, scale)
            async with stage.app:
                figures |= await measure(stage)
    finally:
        with suppress(OSError):
            wire.close()
    return figures
