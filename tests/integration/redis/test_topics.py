"""What is particular to topics on Redis: lost replies, deleted keys, who is woken, what is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream, group_stream
from headrace.core.messages.outcome import DONE, Dead, DeadReason, Failure, Settlement
from headrace.core.records.answers import Answer, DeadFilter
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.topic import BEGINNING, DRAWN_AHEAD, NEW, GroupRecord, Start
from headrace.stores.redis import scripts
from headrace.stores.redis.entries import EntryToken
from headrace.stores.redis.intake import drawing
from headrace.testing.contract.kit.heartbeats import leave
from tests.integration.support.lossy_proxy import Proxy
from tests.integration.support.redis_bench import LONG, Bench, opened
from tests.support.permanent_keys import is_permanent
from tests.support.servers import Server, require, rows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.more

TOPIC = Stream("topic", "orders")
GROUP = group_stream("orders", "billing")

#: Seconds within which a group must go on after keys were deleted: five, and five more for a busy machine.
HEALED = 10.0


class Events:
    """The topic `orders` and its group `billing` on a bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.backend: Any = bench.backend
        self._numbers = count(1)

    def batch(self, *messages: Message) -> Batch:
        return Batch(TOPIC, f"producer-{id(self)}", next(self._numbers), list(messages))

    async def join(self, *, ordered: bool = False) -> None:
        await self.backend.join(GROUP, BEGINNING, ordered=ordered)
        await self.backend.declare_stream(GROUP, 15 * SECOND)

    async def publish(self, number: int = 1, *, key: str = "", body: bytes = b"hello") -> list[str]:
        messages = [Message(new_id(), "placed", body, key=key) for _ in range(number)]
        answers = await self.backend.append(self.batch(*messages))
        assert answers == [Answer(message.id) for message in messages]
        return [message.id for message in messages]

    async def claim(self, limit: int = 100, *, wait: float = 0, consumer: str = "worker") -> list[Claim]:
        claims: list[Claim] = await self.backend.claim(
            [GROUP], consumer=consumer, limit=limit, suspects=10, wait=wait
        )
        return claims

    async def finish(self) -> list[str]:
        ids: list[str] = []
        while claims := await self.claim():
            await self.backend.settle([Settlement(claim, DONE) for claim in claims])
            ids += [claim.id for claim in claims]
        return ids

    async def group(self) -> GroupRecord:
        [record] = await self.backend.topics(["orders"])
        [group] = record.groups
        assert isinstance(group, GroupRecord)
        return group

    async def keys(self) -> list[str]:
        keys = await self.bench.command("KEYS", f"*{self.bench.namespace}*")
        return [key.decode() for key in keys]

    async def delete(self, ending: str) -> None:
        keys = [key for key in await self.keys() if key.endswith(ending)]
        assert keys
        await self.bench.command("DEL", *keys)


@pytest.fixture
async def events(redis_server: Server) -> AsyncIterator[Events]:
    async with opened(redis_server.url) as bench:
        yield Events(bench)


@pytest.fixture
async def proxy(redis_server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy) -> AsyncIterator[Events]:
    """Behind the proxy. The server has the scripts, else the first reply says it lacks one."""
    async with opened(proxy.url) as bench:
        known = [script for script in vars(scripts).values() if isinstance(script, scripts.Script)]
        for script in known:
            await bench.command("SCRIPT", "LOAD", script.source)
        yield Events(bench)


# --- the request arrives and the reply is lost -----------------------------------------------------------


@pytest.mark.parametrize("number", [1, 1200])
async def test_a_publication_whose_reply_was_lost_is_stored_once(
    far: Events, proxy: Proxy, number: int
) -> None:
    await far.join()
    messages = [Message(new_id(), "placed", b"") for _ in range(number)]
    batch = far.batch(*messages)
    proxy.lose_reply(to=scripts.PUBLISH.digest)
    with pytest.raises(BackendUnavailable) as caught:
        await far.backend.append(batch)
    assert caught.value.uncertain
    assert await far.backend.append(batch) == [Answer(message.id) for message in messages]
    assert await far.finish() == [message.id for message in messages]


async def test_what_was_drawn_by_a_lost_claim_is_drawn_once(far: Events, proxy: Proxy) -> None:
    await far.join()
    ids = await far.publish(5)
    proxy.lose_reply(to=scripts.DRAW.digest)
    with pytest.raises(BackendUnavailable):
        await far.claim()
    assert await far.claim(consumer="another") == []
    assert [claim.id for claim in await far.claim()] == ids
    assert await far.claim() == []


async def test_a_lost_join_makes_one_group(far: Events, proxy: Proxy) -> None:
    ids = await far.publish(3)
    proxy.lose_reply(to=scripts.JOIN.digest)
    with pytest.raises(BackendUnavailable):
        await far.join()
    assert not await far.backend.join(GROUP, NEW)
    assert await far.finish() == ids


async def test_a_lost_reset_moves_the_group_once(far: Events, proxy: Proxy) -> None:
    await far.join()
    ids = await far.publish(3)
    await far.finish()
    start = Start("event", event=ids[1])
    proxy.lose_reply(to=scripts.RESET.digest)
    with pytest.raises(BackendUnavailable):
        await far.backend.reset(GROUP, start)
    assert await far.backend.reset(GROUP, start)
    assert await far.finish() == ids[1:]


async def test_a_lost_issue_writes_what_is_due_once(far: Events, proxy: Proxy) -> None:
    await far.join()
    await far.backend.append(far.batch(Message("later", "placed", b"", delay_us=1)))
    proxy.lose_reply(to=scripts.ISSUE_DUE_EVENTS.digest)
    with pytest.raises(BackendUnavailable):
        await far.backend.promote([TOPIC], limit=100)
    assert (await far.backend.promote([TOPIC], limit=100)).next_in_us is None
    assert await far.finish() == ["later"]


# --- what somebody deleted -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "endings", [["}:log"], ["}:groups"], ["}:meta"], ["}:log", "}:meta"], ["/meta"], ["/s:normal"]]
)
async def test_a_group_gets_on_whatever_is_deleted(events: Events, endings: list[str]) -> None:
    await events.join()
    await events.publish(3)
    await events.finish()
    waiting = asyncio.create_task(events.claim(wait=LONG))
    await wait_until(lambda: is_awaited(events))
    for ending in endings:
        await events.delete(ending)
    [id] = await events.publish()
    claims = await asyncio.wait_for(waiting, HEALED)
    while id not in [claim.id for claim in claims]:  # rather twice than never
        claims += await asyncio.wait_for(events.claim(wait=LONG), HEALED)


async def test_a_log_that_begins_anew_is_drawn_from_its_beginning(events: Events) -> None:
    await events.join()
    await events.publish(3)
    await events.finish()
    for ending in ("}:log", "}:meta"):
        await events.delete(ending)
    ids = await events.publish(5)  # beyond the position that the group had
    assert await events.finish() == ids


async def test_a_group_comes_back_when_everything_is_gone(events: Events) -> None:
    await events.join(ordered=True)
    await events.publish(3)
    await events.finish()
    waiting = asyncio.create_task(events.claim(wait=LONG))
    await events.bench.command("FLUSHALL")
    [id] = await events.publish(key="a")
    assert [claim.id for claim in await asyncio.wait_for(waiting, HEALED)] == [id]
    group = await events.group()
    assert group.ordered
    assert GROUP in await events.backend.streams()


async def test_a_reader_goes_on_when_everything_is_gone(events: Events) -> None:
    await events.publish(3)
    await events.bench.command("FLUSHALL")
    waiting = asyncio.create_task(events.backend.read(TOPIC, 3, consumer="reader", limit=10, wait=LONG))
    [id] = await events.publish()
    reading = await asyncio.wait_for(waiting, HEALED)
    assert [entry.id for entry in reading.entries] == [id]


@pytest.mark.parametrize("ending", ["/s:normal", "/keys"])
async def test_a_key_whose_holder_is_gone_is_handed_on(events: Events, ending: str) -> None:
    await events.join(ordered=True)
    _, second, third = await events.publish(3, key="a")
    assert len(await events.claim()) == 1
    await events.delete(ending)
    claims = await asyncio.wait_for(events.claim(wait=LONG), HEALED)
    assert claims[0].id in (second, third)


# --- waking ----------------------------------------------------------------------------------------------


async def test_a_publication_wakes_one_of_the_members_that_wait(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "LOOK", LONG)  # or they would come to it by themselves
    await events.join()
    await events.finish()
    consumers = [f"worker-{number}" for number in range(4)]
    waiting = [asyncio.create_task(events.claim(wait=LONG, consumer=consumer)) for consumer in consumers]

    async def all_wait() -> bool:
        facts = await events.bench.command("INFO", "clients")
        return b"blocked_clients:4" in facts

    await wait_until(all_wait)
    [id] = await events.publish()
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [claim.id for task in done for claim in task.result()] == [id]
    assert len(pending) == 3
    for consumer in consumers:
        events.backend.wake(consumer)
    assert [await task for task in pending] == [[], [], []]


async def test_a_publication_of_what_is_due_wakes_a_member(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "LOOK", LONG)
    await events.join()
    await events.backend.append(events.batch(Message("later", "placed", b"", delay_us=1)))
    waiting = asyncio.create_task(events.claim(wait=LONG))
    await wait_until(lambda: is_awaited(events))
    assert (await events.backend.promote([TOPIC], limit=10)).count == 1
    assert [claim.id for claim in await asyncio.wait_for(waiting, HEALED)] == ["later"]


@pytest.mark.parametrize("start", [BEGINNING, Start("time", time_us=1)])
async def test_a_reset_wakes_a_member(events: Events, monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    monkeypatch.setattr(drawing, "LOOK", LONG)
    await events.join()
    ids = await events.publish(3)
    await events.finish()
    waiting = asyncio.create_task(events.claim(wait=LONG))
    await wait_until(lambda: is_awaited(events))
    assert await events.backend.reset(GROUP, start)
    assert (await asyncio.wait_for(waiting, HEALED))[0].id == ids[0]


async def is_awaited(events: Events) -> bool:
    """Whether a member of the group waits."""
    clients = await events.bench.command("INFO", "clients")
    return b"blocked_clients:0" not in clients


async def test_a_group_that_nobody_waits_for_draws_nothing(events: Events) -> None:
    await events.join()
    await events.publish(10)
    assert (await events.group()).lag == 10


async def test_no_more_is_drawn_ahead_than_allowed(events: Events) -> None:
    await events.join()
    for _ in range(4):
        await events.publish(500)
    assert len(await events.claim(1)) == 1
    group = await events.group()
    assert group.counts.queued <= DRAWN_AHEAD
    assert group.lag == 2000 - 1 - group.counts.queued
    assert len(await events.finish()) == 1999


async def test_whoever_finds_nothing_knows_whether_there_is_more(events: Events) -> None:
    """Between the draw and the claim others may take what lay in the lane."""
    await events.join()
    for _ in range(2):
        await events.publish(500)
    await events.claim(1)
    store = events.backend._store
    call = store.queue(GROUP).call(scripts.DRAW, 1, 0, 0, 0)
    assert await store.run(call) == [1, 0, 1]
    await events.finish()
    assert await store.run(call) == [1, 0, 0]


async def test_large_events_are_drawn_in_small_steps(events: Events) -> None:
    await events.join()
    for _ in range(4):
        await events.publish(2, body=bytes(600_000))
    await events.claim(100)
    assert (await events.group()).lag > 0
    assert len(await events.finish()) > 0
    assert (await events.group()).lag == 0


# --- a server without memory -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", rows())
async def test_out_of_memory_lets_what_was_drawn_end(kind: str, tmp_path: Path) -> None:
    with Server(require(kind), directory=tmp_path) as server:
        async with opened(server.url) as bench:
            events = Events(bench)
            await events.join(ordered=True)
            first, second = await events.publish(2, key="a")
            [claim] = await events.claim()
            await events.publish(3)
            server.command("CONFIG", "SET", "maxmemory", "1mb")
            [refused] = await events.backend.append(events.batch(Message(new_id(), "placed", b"")))
            assert (refused.verdict, "OOM" in refused.why) == ("full", True)
            assert await events.claim() == []  # nothing can be drawn
            assert claim.id == first
            await events.backend.settle([Settlement(claim, DONE)])
            [following] = await events.claim()  # but the next message gets the key
            assert following.id == second
            assert not await events.backend.join(GROUP, NEW, ordered=True)
            await events.backend.keep_topics([GROUP], limit=100)
            server.command("CONFIG", "SET", "maxmemory", "0")
            assert len(await events.finish()) == 3


# --- what is left ----------------------------------------------------------------------------------------


async def test_a_removed_group_leaves_no_key(events: Events) -> None:
    await events.join(ordered=True)
    await events.publish(5, key="a")
    await events.publish(5)
    claims = await events.claim(2)
    dead = Dead(claims[1].state, DeadReason.EXHAUSTED, Failure("Error", "no"))
    await events.backend.settle([Settlement(claims[1], dead)])
    assert await events.backend.remove_stream(GROUP)
    assert await events.claim() == []
    assert [key for key in await events.keys() if ":g:" in key] == []


async def test_a_token_from_before_a_removal_never_fits_again(events: Events) -> None:
    await events.join()
    await events.publish()
    [claim] = await events.claim()
    await events.backend.remove_stream(GROUP)
    await events.join()
    [lane] = [key for key in await events.keys() if key.endswith("/s:normal")]
    facts = await events.bench.command("XINFO", "STREAM", lane)
    last = dict(zip(facts[::2], facts[1::2], strict=True))[b"last-generated-id"]
    assert int(last.split(b"-")[0]) > int(cast(EntryToken, claim.token).entry.split(b"-")[0])


async def test_nothing_but_what_stays_is_left(events: Events) -> None:
    await events.join(ordered=True)
    await events.publish(5, key="a")
    await events.publish(5, key="b")
    [first, *_] = await events.claim()
    dead = Dead(first.state, DeadReason.EXHAUSTED, Failure("Error", "no"))
    await events.backend.settle([Settlement(first, dead)])
    while await events.backend.purge(GROUP, ttl_us=SECOND, limit=100):
        pass
    await leave(events.backend, "worker", GROUP)
    letters = await events.backend.dead_letters(GROUP, only=DeadFilter())
    await events.backend.discard(GROUP, [letter.id for letter in letters])
    keys = await events.keys()
    times = [await events.bench.command("PTTL", key) for key in keys]
    lasting = [key for key, time in zip(keys, times, strict=True) if time == -1]
    # One is still held: its place and its key stay until it ends.
    held = [key for key in lasting if not is_permanent(key)]
    assert sorted(key.rpartition("/")[2] for key in held) == ["ids", "keys"]
