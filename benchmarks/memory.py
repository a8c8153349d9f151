"""`python -m benchmarks.memory`: the bytes that a message takes in each store, by its state, and what else
takes room there.

Each row is measured on a store of its own: how much more is used after many of a kind than after one.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

import apsw

from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.ids import new_id
from headrace.core.messages.job_log import JobLog, LogLine
from headrace.core.messages.message import (
    FRESH,
    Batch,
    Envelope,
    Message,
    Stream,
    TrailEntry,
    UniqueKey,
    encode_envelope,
    group_stream,
)
from headrace.core.messages.outcome import (
    DONE,
    Dead,
    DeadReason,
    Done,
    Failure,
    Kept,
    Outcome,
    Retry,
    Settlement,
)
from headrace.core.records.record import WorkerInfo
from headrace.core.records.traffic import TrafficCount
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule_record import establish
from headrace.core.store import Store
from headrace.core.topics.topic import BEGINNING, TopicRules
from headrace.stores import open_store
from tests.support.servers import Server, available
from tests.support.waiting import wait_until

HOUR = 3600 * SECOND
STEP = 500

#: Bytes of a small call's arguments, of a result, and of a traceback.
PAYLOAD, RESULT, TRACEBACK = 100, 20, 1000

#: Log lines that are kept with a job, and characters of each.
LINES, LINE = 20, 80

QUEUE, TOPIC = Stream("queue", "default"), Stream("topic", "orders")
GROUP = group_stream("orders", "billing")

#: Makes so many of a kind.
Make = Callable[[Store, int], Awaitable[None]]

_numbers = count(1)


class Gauge(Protocol):
    """A store whose size can be read while no client is connected."""

    url: str

    async def used(self) -> int: ...


class RedisGauge:
    def __init__(self, server: Server) -> None:
        self._server = server
        self.url = server.url

    async def used(self) -> int:
        """Without what connections take."""
        await wait_until(lambda: self._number("clients", "connected_clients") == 1)
        return self._number("memory", "used_memory")

    def _number(self, section: str, name: str) -> int:
        answer = self._server.command("INFO", section)
        assert isinstance(answer, bytes)
        [number] = re.findall(rf"\b{name}:(\d+)".encode(), answer)
        return int(number)


class SqliteGauge:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path}"

    async def used(self) -> int:
        """Without pages that are free to be used again."""
        connection = apsw.Connection(str(self._path))
        connection.pragma("wal_checkpoint", "TRUNCATE")
        pages = connection.pragma("page_count") - connection.pragma("freelist_count")
        size: int = pages * connection.pragma("page_size")
        connection.close()
        return size


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.memory")
    parser.add_argument("--number", type=int, default=10_000)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    stores = ["sqlite", *(kind for kind, program in available().items() if program)]
    print(f"{'bytes each, of ' + format(options.number, ','):36}" + "".join(f"{name:>12}" for name in stores))
    for name, (make, number) in KINDS.items():
        sizes = [asyncio.run(measure(store, make, number or options.number)) for store in stores]
        print(f"{name:36}" + "".join(f"{size:12,.0f}" for size in sizes))
        sys.stdout.flush()


async def measure(store: str, make: Make, number: int) -> float:
    with _gauge(store) as gauge:
        await _with_backend(gauge, _prepare)
        await _with_backend(gauge, lambda backend: make(backend, 1))
        before = await gauge.used()
        await _with_backend(gauge, lambda backend: make(backend, number))
        return (await gauge.used() - before) / number


@contextmanager
def _gauge(store: str) -> Iterator[Gauge]:
    with tempfile.TemporaryDirectory(prefix="headrace-memory-") as folder:
        if store == "sqlite":
            yield SqliteGauge(Path(folder) / "jobs.db")
            return
        program = available()[store]
        assert program is not None
        with Server(program, directory=Path(folder)) as server:
            yield RedisGauge(server)


async def _with_backend(gauge: Gauge, act: Callable[[Store], Awaitable[None]]) -> None:
    backend = open_store(gauge.url)
    await backend.open()
    try:
        await act(backend)
    finally:
        await backend.close()


async def _prepare(backend: Store) -> None:
    await backend.declare_stream(QUEUE, HOUR)
    await backend.declare_topic(TOPIC, TopicRules())
    await backend.join(GROUP, BEGINNING)


# --- one kind each ---------------------------------------------------------------------------------------


async def _waiting(backend: Store, number: int) -> None:
    await _append(backend, QUEUE, [_message() for _ in range(number)])


async def _unique(backend: Store, number: int) -> None:
    keys = [UniqueKey(f"customer-{new_id()}") for _ in range(number)]
    await _append(backend, QUEUE, [_message(unique=key) for key in keys])


async def _scheduled(backend: Store, number: int) -> None:
    await _append(backend, QUEUE, [_message(delay_us=HOUR) for _ in range(number)])


async def _running(backend: Store, number: int) -> None:
    await _waiting(backend, number)
    await _claim(backend, QUEUE, number)


async def _cancelled(backend: Store, number: int) -> None:
    messages = [_message() for _ in range(number)]
    await _append(backend, QUEUE, messages)
    for message in messages:
        await backend.cancel(QUEUE, message.id, ttl_us=HOUR)


async def _published(backend: Store, number: int) -> None:
    await _append(backend, TOPIC, [_message() for _ in range(number)])


async def _held_events(backend: Store, number: int) -> None:
    await _published(backend, number)
    await _claim(backend, GROUP, number)


async def _logging(backend: Store, number: int) -> None:
    await _waiting(backend, number)
    claims = await _claim(backend, QUEUE, number)
    for start in range(0, len(claims), STEP):
        await backend.report_progress([Report(claim, log=_LOG) for claim in claims[start : start + STEP]])


def _ended(outcome: Outcome) -> Make:
    async def make(backend: Store, number: int) -> None:
        await _waiting(backend, number)
        await _settle(backend, await _claim(backend, QUEUE, number), outcome)

    return make


async def _handled_events(backend: Store, number: int) -> None:
    await _published(backend, number)
    await _settle(backend, await _claim(backend, GROUP, number), DONE)


async def _queues(backend: Store, number: int) -> None:
    for _ in range(number):
        await backend.declare_stream(Stream("queue", new_id()), HOUR)


async def _groups(backend: Store, number: int) -> None:
    for _ in range(number):
        await backend.join(group_stream("orders", new_id()), BEGINNING)


async def _workers(backend: Store, number: int) -> None:
    for _ in range(number):
        await backend.heartbeat(WorkerInfo(new_id(), "host", 1, 1, ("default",), 100), {})


async def _schedules(backend: Store, number: int) -> None:
    await backend.swap_schedules([establish(QUEUE, new_id()) for _ in range(number)])


async def _producers(backend: Store, number: int) -> None:
    """The message itself is in it."""
    for _ in range(number):
        await backend.append(Batch(QUEUE, new_id(), 1, [_message()]))


async def _traffic(backend: Store, number: int) -> None:
    await backend.count_traffic([TrafficCount(Stream("queue", new_id()), 100, 1, 1) for _ in range(number)])


_TRACE = "x" * TRACEBACK
_LOG = JobLog(tuple(LogLine(1, 1_700_000_000_000_000, "info", "x" * LINE) for _ in range(LINES)))
_FAILED = FRESH.failed(TrailEntry(1, "failed", "host-1234-abcdef", "ValueError: no such row"))

#: What is made, and how many: 0 as many as asked for.
KINDS: dict[str, tuple[Make, int]] = {
    "waiting": (_waiting, 0),
    "waiting, with a unique key": (_unique, 0),
    "scheduled": (_scheduled, 0),
    "running": (_running, 0),
    f"running, {LINES} log lines of {LINE}": (_logging, 0),
    "retrying": (_ended(Retry(_FAILED, HOUR)), 0),
    f"dead, traceback of {TRACEBACK}": (
        _ended(Dead(_FAILED, DeadReason.EXHAUSTED, Failure("ValueError", "no such row", _TRACE))),
        0,
    ),
    f"succeeded, result of {RESULT} kept": (_ended(Done(Kept(bytes(RESULT), HOUR))), 0),
    f"succeeded, {LINES} log lines of {LINE}": (
        _ended(Done(Kept(bytes(RESULT), HOUR), FRESH.logged(_LOG))),
        0,
    ),
    "succeeded, nothing kept": (_ended(DONE), 0),
    "cancelled": (_cancelled, 0),
    "event in a topic": (_published, 0),
    "event in a topic, held by a group": (_held_events, 0),
    "event in a topic, handled": (_handled_events, 0),
    "a queue": (_queues, 500),
    "a group": (_groups, 500),
    "a worker": (_workers, 500),
    "a schedule": (_schedules, 500),
    "a producer, with its last job": (_producers, 500),
    "counts of a queue, each minute": (_traffic, 500),
}


def _message(delay_us: int = 0, unique: UniqueKey | None = None) -> Message:
    id = new_id()
    body = encode_envelope(Envelope(1, id, "shop.send_mail", 1, None, None, bytes(PAYLOAD)))
    return Message(id, "shop.send_mail", body, delay_us=delay_us, unique=unique, fresh=True)


async def _append(backend: Store, stream: Stream, messages: Sequence[Message]) -> None:
    for start in range(0, len(messages), STEP):
        batch = Batch(stream, "producer", next(_numbers), list(messages[start : start + STEP]))
        answers = await backend.append(batch)
        assert all(answer.verdict == "accepted" for answer in answers)


async def _claim(backend: Store, stream: Stream, number: int) -> list[Claim]:
    claims: list[Claim] = []
    while len(claims) < number:
        claims += await backend.claim([stream], consumer="worker", limit=STEP, suspects=1, wait=1)
    return claims


async def _settle(backend: Store, claims: Sequence[Claim], outcome: Outcome) -> None:
    for start in range(0, len(claims), STEP):
        await backend.settle([Settlement(claim, outcome) for claim in claims[start : start + STEP]])


if __name__ == "__main__":
    main()
