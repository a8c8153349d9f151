"""Everything in a store moves to another store of any kind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path

import pytest

from headrace.core.errors import BackendUnavailable, ConfigurationError, StoreMoved
from headrace.core.limits.figures import LimitFigures
from headrace.core.limits.paused_tasks import pause_of, paused_tasks
from headrace.core.messages.message import Batch, Message
from headrace.core.messages.outcome import Done, Settlement
from headrace.core.messages.outgoing import Outgoing
from headrace.core.moving.moving import SetAside
from headrace.core.moving.seal import Seal
from headrace.core.store import Store
from headrace.engine.moving.draining import NotDrained, Remaining
from headrace.engine.moving.move import Side, StoreMove
from headrace.engine.streams import StreamRouter
from headrace.testing.waiting import wait_until
from tests.integration.moving.conftest import KINDS, Place
from tests.integration.support.moved_content import (
    BILLING,
    ORDERS,
    PAUSED,
    STRICT,
    WORK,
    append,
    claim,
    describe,
    fill,
    run_all,
    settle,
)
from tests.support.servers import FIRST_KIND, Server, require

pytestmark = pytest.mark.anyio

Open = Callable[[Place], Awaitable[Store]]

#: Each kind is a source once, and a target once.
ROUND = (("sqlite", "valkey"), ("valkey", "postgresql"), ("postgresql", "sqlite"))


class Watcher:
    """Remembers what a move reports."""

    def __init__(self) -> None:
        self.waited: list[str] = []
        self.count = 0

    def sealed(self, seal: Seal) -> None: ...

    def waits(self, remaining: Remaining) -> None:
        self.waited.append(str(remaining))

    def copies(self, streams: list[SetAside]) -> None: ...

    def copied(self, count: int) -> None:
        self.count = count


def move_of(source: Store, target: Store, watcher: Watcher | None = None) -> StoreMove:
    sides = Side(source, "the source"), Side(target, "the target")
    return StoreMove(*sides, watcher or Watcher())


@pytest.mark.parametrize(
    ("source_kind", "target_kind"),
    [
        pytest.param(*pair, marks=[] if pair in ROUND else [pytest.mark.more])
        for pair in product(KINDS, KINDS)
    ],
)
async def test_everything_arrives_as_it_was_and_the_source_is_empty(
    source_kind: str, target_kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    source, target = await opened(place(source_kind)), await opened(place(target_kind))
    await fill(source)
    before = await describe(source)

    moved = await move_of(source, target).run(drain_limit=10)

    assert moved is not None
    assert await describe(target) == before
    assert await source.streams() == []
    assert await source.topics() == []
    assert (await source.schedules([WORK])).records == ()
    for stream in (WORK, PAUSED, BILLING, STRICT):
        assert (await source.messages(stream)).items == ()
    # And it goes on there: lanes, keys in their order, undrawn events.
    jobs = await run_all(target, WORK)
    jobs.remove("child")  # which has its own order
    assert jobs == ["returned", "high", "normal 1", "normal 2", "low"]
    assert await run_all(target, BILLING) == ["event-2", "event-3", "event-4", "event-5", "once"]
    assert await run_all(target, STRICT) == ["event-3", "event-5", "once"]  # k0 waits for its retry


@pytest.mark.parametrize(("source_kind", "target_kind"), ROUND)
async def test_a_repeat_changes_nothing_and_a_move_back_brings_everything_back(
    source_kind: str, target_kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    source, target = await opened(place(source_kind)), await opened(place(target_kind))
    await fill(source)
    before = await describe(source)
    await move_of(source, target).run(drain_limit=10)

    assert await move_of(source, target).run(drain_limit=10) is None
    assert await describe(target) == before
    back = StoreMove(Side(target, "the target"), Side(source, "the source"), Watcher())
    assert await back.run(drain_limit=10) is not None

    assert await describe(source) == before
    await append(source, WORK, Message("new", "greet", b""))
    with pytest.raises(StoreMoved, match="the source"):
        await append(target, WORK, Message("new", "greet", b""))


@pytest.mark.parametrize(("source_kind", "target_kind"), ROUND)
async def test_paused_tasks_and_figures_that_were_set_move_and_do_not_stay_behind(
    source_kind: str, target_kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    source, target = await opened(place(source_kind)), await opened(place(target_kind))
    left, right = StreamRouter(source), StreamRouter(target)
    await left.declare_limits([pause_of("charge", paused=True), LimitFigures("stripe", 5)])
    await left.set_limit("stripe", LimitFigures("stripe", 1))

    await move_of(source, target).run(drain_limit=10)

    assert await steered(right) == {"charge", "stripe: 1 running, declared 5 running"}
    await right.declare_limits([pause_of("charge", paused=False)])
    await right.set_limit("stripe", None)
    await StoreMove(Side(target, "the target"), Side(source, "the source"), Watcher()).run(drain_limit=10)
    assert await steered(left) == set()


async def steered(store: StreamRouter) -> set[str]:
    """What an administrator has set: the tasks that are paused, and limits with other figures."""
    records = await store.limits(counted=False)
    texts = [
        f"{each.figures.name}: {each.figures}, declared {each.declared}" for each in records if each.declared
    ]
    return {*texts, *paused_tasks(each.figures for each in records)}


@pytest.mark.parametrize(("source_kind", "target_kind"), ROUND)
async def test_producers_that_run_during_the_move_lose_nothing_and_double_nothing(
    source_kind: str, target_kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    where = place(source_kind)
    source, target = await opened(where), await opened(place(target_kind))
    await source.declare_stream(WORK, 40_000_000)
    taken: list[str] = []

    async def produce(name: str) -> None:
        store = await opened(where)
        for number in range(1, 100_000):
            message = Message(f"{name}-{number}", "greet", b"", fresh=number % 2 == 0)
            stream = WORK if number % 3 else ORDERS
            try:
                await store.append(Batch(stream, name, number, [message]))
            except StoreMoved:
                return
            taken.append(message.id)

    producers = [asyncio.create_task(produce(f"p{number}")) for number in range(3)]
    await wait_until(lambda: len(taken) > 50)
    await move_of(source, target).run(drain_limit=10)
    await asyncio.gather(*producers)

    jobs = await run_all(target, WORK)
    events: list[str] = []
    while True:
        reading = await target.read(ORDERS, len(events), consumer="test", limit=500, wait=0)
        if not reading.entries:
            break
        events += [entry.id for entry in reading.entries]
    assert sorted(jobs + events) == sorted(taken)


async def test_running_work_ends_before_anything_is_moved(
    place: Callable[[str], Place], opened: Open
) -> None:
    source, target = await opened(place("sqlite")), await opened(place("sqlite"))
    await source.declare_stream(WORK, 40_000_000)
    await append(source, WORK, Message("long", "render", b""), Message("waits", "greet", b""))
    (running,) = await claim(source, WORK)
    watcher = Watcher()

    with pytest.raises(NotDrained, match=r"1 running: render \(long\) of filler"):
        await move_of(source, target, watcher).run(drain_limit=0)
    assert await claim(source, WORK) == []
    moving = asyncio.create_task(move_of(source, target, watcher).run(drain_limit=30))
    await wait_until(lambda: len(watcher.waited) > 2)
    await settle(source, running, Done())
    await moving

    assert await run_all(target, WORK) == ["waits"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_waits_in_an_outbox_for_room_in_its_queue_moves(
    kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    source, target = await opened(place(kind)), await opened(place("sqlite"))
    for stream in (WORK, PAUSED):
        await source.declare_stream(stream, 40_000_000)
    await append(source, WORK, Message("cause", "greet", b""))
    (cause,) = await claim(source, WORK)
    calls = [Outgoing(PAUSED, Message(f"call {number}", "greet", b""), limit=1) for number in range(3)]
    await source.settle([Settlement(cause, Done(), tuple(calls))])

    await move_of(source, target).run(drain_limit=5)

    assert await run_all(target, PAUSED) == ["call 0", "call 1", "call 2"]


async def test_a_move_that_only_waits_can_be_cancelled(place: Callable[[str], Place], opened: Open) -> None:
    source, target = await opened(place("sqlite")), await opened(place("sqlite"))
    await source.declare_stream(WORK, 40_000_000)
    await append(source, WORK, Message("long", "render", b""))
    await claim(source, WORK)
    with pytest.raises(NotDrained):
        await move_of(source, target).run(drain_limit=0)

    assert await move_of(source, target).cancel()

    await append(source, WORK, Message("new", "greet", b""))
    assert not await move_of(source, target).cancel()


async def test_a_conflict_loses_nothing_and_the_move_goes_on_without_it(
    place: Callable[[str], Place], opened: Open
) -> None:
    source, target = await opened(place("valkey")), await opened(place("postgresql"))
    for store in (source, target):
        await store.declare_stream(WORK, 40_000_000)
        await append(store, WORK, Message("same", "greet", b""))
    await append(source, WORK, Message("other", "greet", b""))

    with pytest.raises(ConfigurationError, match="same"):
        await move_of(source, target).run(drain_limit=10)
    with pytest.raises(ConfigurationError, match="cannot be cancelled"):
        await move_of(source, target).cancel()
    assert await run_all(target, WORK) == ["same"]
    await move_of(source, target).run(drain_limit=10)

    assert await run_all(target, WORK) == ["same", "other"]


async def test_a_target_in_use_keeps_what_it_has(place: Callable[[str], Place], opened: Open) -> None:
    source, target = await opened(place("sqlite")), await opened(place("valkey"))
    for store, id in ((source, "moved"), (target, "own")):
        await store.declare_stream(WORK, 40_000_000)
        await append(store, WORK, Message(id, "greet", b""))

    await move_of(source, target).run(drain_limit=10)

    assert await run_all(target, WORK) == ["own", "moved"]


async def test_a_topic_with_events_in_both_stores_is_refused_before_anything_is_sealed(
    place: Callable[[str], Place], opened: Open
) -> None:
    source, target = await opened(place("sqlite")), await opened(place("postgresql"))
    for store in (source, target):
        await append(store, ORDERS, Message("event", "placed", b""))

    with pytest.raises(ConfigurationError, match="events in both stores"):
        await move_of(source, target).run(drain_limit=10)

    await append(source, ORDERS, Message("more", "placed", b""))


@pytest.mark.parametrize("kind", KINDS)
async def test_one_store_under_two_names_is_recognised(
    kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    where = place(kind)
    source, same = await opened(where), await opened(where)
    await source.declare_stream(WORK, 40_000_000)

    with pytest.raises(ConfigurationError, match="same store"):
        await move_of(source, same).run(drain_limit=10)

    await append(source, WORK, Message("new", "greet", b""))


async def test_everything_leaves_a_server_that_is_out_of_memory(
    tmp_path: Path, place: Callable[[str], Place], opened: Open
) -> None:
    with Server(require(FIRST_KIND), directory=tmp_path / "full") as server:
        source, target = await opened((server.url, "full")), await opened(place("sqlite"))
        await fill(source)
        before = await describe(source)
        server.command("CONFIG", "SET", "maxmemory", "1mb")

        await move_of(source, target).run(drain_limit=10)

        assert await describe(target) == before
        assert await source.streams() == []


async def test_another_target_is_refused_while_a_move_is_under_way(
    place: Callable[[str], Place], opened: Open
) -> None:
    source, target = await opened(place("sqlite")), await opened(place("sqlite"))
    await source.declare_stream(WORK, 40_000_000)
    await append(source, WORK, Message("long", "render", b""))
    await claim(source, WORK)
    with pytest.raises(NotDrained):
        await move_of(source, target).run(drain_limit=0)

    other = StoreMove(
        Side(source, "the source"), Side(await opened(place("sqlite")), "a third store"), Watcher()
    )
    with pytest.raises(ConfigurationError, match="is being moved to the target"):
        await other.run(drain_limit=0)


async def test_a_target_that_goes_away_in_the_middle_loses_nothing(
    place: Callable[[str], Place], opened: Open
) -> None:
    source, where = await opened(place("valkey")), place("sqlite")
    await fill(source)
    before = await describe(source)
    target = await opened(where)

    class Leaving(Watcher):
        def copied(self, count: int) -> None:
            if count > 5:
                raise BackendUnavailable("the target went away")

    with pytest.raises(BackendUnavailable, match="went away"):
        await move_of(source, target, Leaving()).run(drain_limit=10)
    with pytest.raises(StoreMoved):
        await append(source, WORK, Message("new", "greet", b""))
    await move_of(source, await opened(where)).run(drain_limit=10)

    assert await describe(target) == before


@pytest.mark.more
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("source_kind", "target_kind"), ROUND)
async def test_a_hundred_thousand_waiting_jobs_move_in_their_order(
    source_kind: str, target_kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    source, target = await opened(place(source_kind)), await opened(place(target_kind))
    await source.declare_stream(WORK, 40_000_000)
    for number in range(100):
        jobs = [Message(f"{number:02}-{index:03}", "greet", b"x" * 100) for index in range(1000)]
        await append(source, WORK, *jobs)

    began = time.monotonic()
    await move_of(source, target).run(drain_limit=10)

    assert time.monotonic() - began < 120
    assert (await target.counts(WORK)).queued == 100_000
    claims = await claim(target, WORK, limit=2000)
    assert [each.id for each in claims[:5]] == [f"00-{index:03}" for index in range(5)]
