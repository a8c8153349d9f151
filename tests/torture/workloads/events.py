"""Events: topics with one part and with several; groups that are ordered, in batches, settled by hand,
replayed, or feed jobs; fan-outs; keys, delays, idempotency keys, failing handlers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from headrace import (
    BatchResult,
    Delivery,
    Duplicate,
    Event,
    HeadraceError,
    Published,
    Refused,
    RetryPolicy,
    Topic,
    current_job,
)
from tests.torture.facts import Plan
from tests.torture.program import PlannedFailure, Program

program = Program.from_environment(rate=360.0)
app = program.app

#: Retries of every group.
RETRIES: Final = 4
POLICY: Final = RetryPolicy.fixed(RETRIES, 0.02)

#: Keys of each producer.
KEYS: Final = 12

#: Events that are sent to the topic of many events at a time. Only one group reads it.
BUSY: Final = 60


class News(msgspec.Struct):
    """`fails`: the handlers that may fail do so in so many runs."""

    message: str
    nap: float = 0.0
    fails: int = 0
    body: bytes = b""


orders: Topic[News] = app.topic("orders", News)
wide: Topic[News] = app.topic("wide", News, partitions=program.partitions)
busy: Topic[News] = app.topic("busy", News)


async def _handle(event: Event[News], group: str, *, may_fail: bool = False) -> None:
    news = event.payload
    with program.running(news.message, group=group) as attempt:
        await asyncio.sleep(news.nap)
        if may_fail and attempt <= news.fails:
            raise PlannedFailure(f"as planned, in attempt {attempt}")


@orders.subscribe("ordered", ordered=True, start="beginning", retry=POLICY)
async def in_order(event: Event[News]) -> None:
    await _handle(event, "ordered", may_fail=True)


@wide.subscribe("ordered-wide", ordered=True, start="beginning", retry=POLICY)
async def in_order_of_parts(event: Event[News]) -> None:
    await _handle(event, "ordered-wide", may_fail=True)


@orders.subscribe("plain", start="beginning", retry=POLICY)
async def plainly(event: Event[News]) -> None:
    await _handle(event, "plain", may_fail=True)


@orders.subscribe("batch", batch=40, start="beginning", retry=POLICY)
async def in_batches(events: list[Event[News]]) -> None:
    await _handle_all(events, "batch")


@wide.subscribe("batch-wide", batch=10, start="beginning", retry=POLICY)
async def in_batches_of_parts(events: list[Event[News]]) -> BatchResult:
    await _handle_all(events, "batch-wide")
    return BatchResult(failed={})


@busy.subscribe("batch-busy", batch=100, start="beginning", retry=POLICY)
async def in_large_batches(events: list[Event[News]]) -> None:
    await _handle_all(events, "batch-busy")


@orders.subscribe("manual", ack="manual", start="beginning", retry=POLICY)
async def by_hand(delivery: Delivery[News]) -> None:
    await _handle(delivery.event, "manual")
    await delivery.ack()


@wide.subscribe("replayed", start="beginning", retry=POLICY)
async def again(event: Event[News]) -> None:
    await _handle(event, "replayed")


@wide.subscribe("threaded", start="beginning", retry=POLICY)
def in_thread(event: Event[News]) -> None:
    with program.running(event.payload.message, group="threaded"):
        time.sleep(event.payload.nap)


@orders.subscribe(fan_out=True)
async def everywhere(event: Event[News]) -> None:
    await _handle(event, f"fan-out {program.recorder.process}")


@app.task(name="fed", queue="fed", retry=POLICY)
async def fed(news: News) -> None:
    with program.running(news.message, group="feed", id=current_job().id.partition(":")[0]):
        await asyncio.sleep(0)


orders.feed(fed, group="feeder", start="beginning")

GROUPS: Final = {
    "orders": ("ordered", "plain", "batch", "manual", "feed"),
    "wide": ("ordered-wide", "batch-wide", "replayed", "threaded"),
    "busy": ("batch-busy",),
}


async def _handle_all(events: list[Event[News]], group: str) -> None:
    runs = [program.running(event.payload.message, group=group, id=event.id) for event in events]
    for run in runs:
        run.__enter__()
    try:
        await asyncio.sleep(max(event.payload.nap for event in events))
    except BaseException as error:
        for run in runs:
            run.__exit__(type(error), error, None)
        raise
    for run in runs:
        run.__exit__(None, None, None)


class Publisher:
    """Chooses events, and publishes them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._random = program.own
        self._positions: Counter[str] = Counter()

    def choose(self, topic: Topic[News], *, keyed: bool) -> tuple[str, Plan, News, dict[str, Any]]:
        random, message = self._random, self._program.new_message()
        options: dict[str, Any] = {}
        position = 0
        if keyed:
            key = options["key"] = f"{topic.name}/{self._program.recorder.process}/{random.randrange(KEYS)}"
            self._positions[key] += 1
            position = self._positions[key]
        elif random.random() < 0.1:
            options["delay"] = round(random.uniform(0.1, 1.5), 3)
        fails = random.choices([0, 1, 2], [94, 5, 1])[0]
        news = News(
            message,
            nap=random.choices([0.0, 0.01, 0.2], [80, 18, 2])[0],
            fails=fails,
            body=random.randbytes(random.choices([0, 200, 50_000], [60, 39, 1])[0]),
        )
        plan = Plan(
            topic=topic.name,
            key=options.get("key", ""),
            position=position,
            delay=options.get("delay", 0.0),
            attempts=RETRIES + 1,
            fails=fails,
        )
        return message, plan, news, options

    async def publish(self, topic: Topic[News], *, keyed: bool) -> None:
        message, plan, news, options = self.choose(topic, keyed=keyed)
        self._program.invoke(message, plan)
        try:
            id = await topic.publish(news, **options)
        except HeadraceError as error:
            self._program.failed(message, error)
        else:
            self._program.accept(message, id)

    async def publish_many(self, topic: Topic[News], number: int) -> None:
        chosen = [self.choose(topic, keyed=True) for _ in range(number)]
        for message, plan, _, _ in chosen:
            self._program.invoke(message, plan)
        outcomes = await _outcomes(topic, [topic.message(news, **options) for _, _, news, options in chosen])
        for (message, _, _, _), outcome in zip(chosen, outcomes, strict=True):
            match outcome:
                case Published(id):
                    self._program.accept(message, id)
                case Duplicate(id):
                    self._program.accept(message, id, duplicate=True)
                case refused:
                    self._program.failed(message, refused.error)

    async def publish_twice(self, topic: Topic[News]) -> None:
        """Two events of one idempotency key: the second is answered with the id of the first."""
        key = self._program.new_message()
        for _ in range(2):
            message, plan, news, options = self.choose(topic, keyed=False)
            self._program.invoke(message, plan)
            [outcome] = await _outcomes(topic, [topic.message(news, idempotency_key=key, **options)])
            match outcome:
                case Published(id) | Duplicate(id):
                    self._program.accept(message, id, duplicate=isinstance(outcome, Duplicate))
                case refused:
                    self._program.failed(message, refused.error)

    def publish_from_thread(self, topic: Topic[News]) -> None:
        message, plan, news, options = self.choose(topic, keyed=False)
        self._program.invoke(message, plan)
        try:
            id = app.sync.publish(topic, news, **options)
        except HeadraceError as error:
            self._program.failed(message, error)
        else:
            self._program.accept(message, id)

    async def replay(self) -> None:
        """Let a group read everything again. From a later start it could skip what it has not read yet."""
        self._program.recorder.write("replayed", group="replayed")
        try:
            await wide.replay(group="replayed", since="beginning")
        except HeadraceError:
            return  # the store is away, or the group is


async def _outcomes(topic: Topic[News], drafts: list[Any]) -> list[Published | Duplicate | Refused]:
    """What became of each event. When a new event loop cannot open the store, the call raises for all."""
    try:
        return await topic.publish_many(drafts)
    except HeadraceError as error:
        return [Refused(error)] * len(drafts)


async def _steadily(publisher: Publisher) -> None:
    """Keyed events one after the other, so that their order is known; others beside them."""
    random = program.own
    async with app:
        while not program.stopped:
            topic = random.choice([orders, wide])
            for _ in range(random.randint(1, 5)):
                await publisher.publish(topic, keyed=True)
            many = random.choice([3, 20, 100])
            await publisher.publish_many(topic, many)
            await publisher.publish_many(busy, BUSY)
            others = (publisher.publish(topic, keyed=False) for _ in range(4))
            await asyncio.gather(*others, publisher.publish_twice(topic))
            if random.random() < 0.01:
                await publisher.replay()
            await program.pace(many + 11)


async def _shortly(publisher: Publisher) -> None:
    await publisher.publish_many(program.own.choice([orders, wide]), 20)
    await publisher.publish_many(busy, BUSY)
    await publisher.publish(orders, keyed=True)


def _in_short_loops(publisher: Publisher) -> None:
    while not program.stopped:
        asyncio.run(_shortly(publisher))
        program.pace_sync(21)


def _from_threads(publisher: Publisher) -> None:
    def publish() -> None:
        while not program.stopped:
            publisher.publish_from_thread(orders)
            program.pace_sync(3)

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(publish) for _ in range(3)]:
            done.result()
    app.sync.close()


def produce(program: Program) -> None:
    """The kind of producer depends on its number: every third one is of the same kind."""
    for topic, groups in GROUPS.items():
        for group in groups:
            program.recorder.write("group", group=group, value=topic)
    publisher = Publisher(program)
    match int(program.recorder.process.rpartition("-")[2]) % 3:
        case 0:
            asyncio.run(_steadily(publisher))
        case 1:
            _in_short_loops(publisher)
        case _:
            _from_threads(publisher)
