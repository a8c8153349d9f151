"""The program of the soak: the jobs of `workloads/jobs.py`, and a topic with its groups beside them. What the
store keeps is kept for a minute, so that its size settles soon."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any, Final

import msgspec

from headrace import Event, HeadraceError, RetryPolicy, Topic
from tests.torture.facts import Plan
from tests.torture.program import PlannedFailure, Program
from tests.torture.workloads import jobs

program = jobs.program
app = jobs.app

#: Seconds for which events are kept.
RETENTION: Final = 60.0

#: Retries of every group.
RETRIES: Final = 4
POLICY: Final = RetryPolicy.fixed(RETRIES, 0.05)

#: Keys of each producer.
KEYS: Final = 12

#: Events for each job, about.
SHARE: Final = 0.1

GROUPS: Final = ("ordered", "plain", "batch")


class News(msgspec.Struct):
    """`fails`: the handlers that may fail do so in so many runs."""

    message: str
    fails: int = 0
    body: bytes = b""


news: Topic[News] = app.topic("news", News, retention=RETENTION)


async def _handle(event: Event[News], group: str) -> None:
    with program.running(event.payload.message, group=group) as attempt:
        await asyncio.sleep(0)
        if attempt <= event.payload.fails:
            raise PlannedFailure(f"as planned, in attempt {attempt}")


@news.subscribe("ordered", ordered=True, start="beginning", retry=POLICY)
async def in_order(event: Event[News]) -> None:
    await _handle(event, "ordered")


@news.subscribe("plain", start="beginning", retry=POLICY)
async def plainly(event: Event[News]) -> None:
    await _handle(event, "plain")


@news.subscribe("batch", batch=40, start="beginning", retry=POLICY)
async def in_batches(events: list[Event[News]]) -> None:
    for event in events:
        with program.running(event.payload.message, group="batch", id=event.id):
            await asyncio.sleep(0)


@news.subscribe(fan_out=True)
async def everywhere(event: Event[News]) -> None:
    with program.running(event.payload.message, group=f"fan-out {program.recorder.process}"):
        await asyncio.sleep(0)


class Publisher:
    """Publishes events one after the other, so that the order of each key is known."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._random = program.own
        self._positions: Counter[str] = Counter()

    async def run(self) -> None:
        async with app:
            while not self._program.stopped:
                await self.publish()
                await self._program.pace(round(1 / SHARE))

    async def publish(self) -> None:
        message, plan, payload, options = self._choose()
        self._program.invoke(message, plan)
        try:
            id = await news.publish(payload, **options)
        except HeadraceError as error:
            self._program.failed(message, error)
        else:
            self._program.accept(message, id)

    def _choose(self) -> tuple[str, Plan, News, dict[str, Any]]:
        random, message = self._random, self._program.new_message()
        fails = random.choices([0, 1], [95, 5])[0]
        payload = News(message, fails, random.randbytes(random.choices([0, 200, 20_000], [60, 39, 1])[0]))
        if random.random() < 0.1:
            delay = round(random.uniform(0.1, 1.5), 3)
            plan = Plan(topic=news.name, delay=delay, attempts=RETRIES + 1, fails=fails)
            return message, plan, payload, {"delay": delay}
        key = f"{self._program.recorder.process}/{random.randrange(KEYS)}"
        self._positions[key] += 1
        plan = Plan(
            topic=news.name, key=key, position=self._positions[key], attempts=RETRIES + 1, fails=fails
        )
        return message, plan, payload, {"key": key}


def produce(program: Program) -> None:
    """Jobs as their workload sends them, and events from a thread with an event loop of its own."""
    for group in GROUPS:
        program.recorder.write("group", group=group, value=news.name)
    publishing = threading.Thread(target=lambda: asyncio.run(Publisher(program).run()))
    publishing.start()
    jobs.produce(program)
    publishing.join()
