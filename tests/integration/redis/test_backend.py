"""What is particular to the Redis backend: lost replies, forgotten scripts and groups, cut connections."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import pytest

from headrace.core.errors import BackendUnavailable, ConfigurationError, NotConfirmed
from headrace.core.limits.paused_tasks import pause_of
from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import HIGH, Batch, Message, Stream, TrailEntry, UniqueKey
from headrace.core.messages.outcome import (
    DONE,
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Failure,
    Kept,
    Released,
    Retry,
    Settlement,
    Verdict,
)
from headrace.core.records.answers import (
    Answer,
    DeadFilter,
    Reclaimed,
    Recovery,
    Renewal,
    ReplayAnswer,
    Wanted,
)
from headrace.core.records.control import ControlMessage, ControlState, PauseNotice
from headrace.core.records.record import JobStatus, WorkerInfo
from headrace.core.runtime.clock import SECOND
from headrace.stores import open_store
from headrace.stores.redis import scripts
from headrace.stores.redis.client import connection
from headrace.stores.redis.entries import EntryToken
from headrace.stores.redis.intake import reader
from headrace.stores.redis.intake.blocking_read import BlockingRead
from headrace.stores.redis.keys import NORMAL_LANE
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.store import RedisStore
from headrace.stores.redis.stream_scripts import StreamScripts
from headrace.stores.redis.upkeep import promotion, recovery
from headrace.stores.redis.upkeep.recovery import Overdue, Recoverer
from headrace.stores.redis.upkeep.workers import WorkerEntry, encode_worker
from headrace.stores.redis.verbs import announcements
from headrace.stores.redis.verbs.limits import READ_AGAIN
from headrace.testing.contract.kit.heartbeats import beat, leave
from tests.integration.support.lossy_proxy import Proxy
from tests.integration.support.redis_bench import LONG, SOURCE, STREAM, Bench, opened
from tests.support.permanent_keys import is_permanent
from tests.support.server_groups import QUICKLY, text_of
from tests.support.servers import Server, require, rows
from tests.support.waiting import wait_until, wait_until_sync


@pytest.fixture
async def bench(redis_server: Server) -> AsyncIterator[Bench]:
    async with opened(redis_server.url) as bench:
        yield bench


@pytest.fixture
async def proxy(redis_server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy) -> AsyncIterator[Bench]:
    """A bench behind the proxy. The server has the scripts, else the first reply says it lacks one."""
    async with opened(proxy.url) as bench:
        known = [script for script in vars(scripts).values() if isinstance(script, scripts.Script)]
        for script in known:
            await bench.command("SCRIPT", "LOAD", script.source)
        yield bench


# --- the request arrives and the reply is lost -----------------------------------------------------------


@pytest.mark.parametrize("number", [1, 3, 1200])
async def test_a_batch_whose_reply_was_lost_is_answered_the_same(
    far: Bench, proxy: Proxy, number: int
) -> None:
    [known] = await far.add()
    batch = far.batch(
        *[Message(new_id(), "greet", b"hello") for _ in range(number)], Message(known, "greet", b"")
    )
    proxy.lose_reply(to=scripts.APPEND.digest)
    with pytest.raises(BackendUnavailable) as caught:
        await far.backend.append(batch)
    assert caught.value.uncertain
    answers = await far.backend.append(batch)
    assert [answer.verdict for answer in answers] == ["accepted"] * number + ["duplicate"]
    assert (await far.backend.counts(STREAM)).queued == number + 1


async def test_a_lone_message_whose_reply_was_lost_is_stored_once(far: Bench, proxy: Proxy) -> None:
    batch = far.batch(Message(new_id(), "greet", b"hello", fresh=True))
    proxy.lose_reply(to=scripts.APPEND_ONE.digest)
    with pytest.raises(BackendUnavailable) as caught:
        await far.backend.append(batch)
    assert caught.value.uncertain
    assert [answer.verdict for answer in await far.backend.append(batch)] == ["accepted"]
    assert (await far.backend.counts(STREAM)).queued == 1


async def test_a_settlement_whose_reply_was_lost_may_be_repeated(far: Bench, proxy: Proxy) -> None:
    await far.add(3)
    done, failed, dead = await far.claim()
    settlements = [
        Settlement(done, Done(Kept(b"42", 60 * SECOND))),
        Settlement(failed, Retry(failed.state.failed(TrailEntry(1, "failed", "worker")), 60 * SECOND)),
        Settlement(dead, Dead(dead.state, DeadReason.EXHAUSTED, Failure("Error", "no"))),
    ]
    proxy.lose_reply(to=scripts.FINISH.digest)
    with pytest.raises(BackendUnavailable) as caught:
        await far.backend.settle(settlements)
    assert caught.value.uncertain
    assert await far.backend.settle(settlements) == [Verdict.GONE, Verdict.LOST, Verdict.LOST]
    statuses = [(await far.backend.get(STREAM, claim.id)).status for claim in (done, failed, dead)]
    assert statuses == [JobStatus.SUCCEEDED, JobStatus.RETRYING, JobStatus.DEAD]


async def test_what_a_lost_claim_took_is_offered_to_the_same_consumer_again(far: Bench, proxy: Proxy) -> None:
    ids = await far.add(5)
    proxy.lose_reply(to=scripts.CLAIM.digest)
    with pytest.raises(BackendUnavailable):
        await far.claim()
    assert await far.claim(consumer="another") == []
    claims = await far.claim()
    assert [claim.id for claim in claims] == ids
    assert await far.claim() == []
    assert await far.settle(DONE, *claims) == [Verdict.KEPT] * 5


async def test_a_first_claim_that_was_lost_is_offered_again_from_a_lane_that_nobody_told_of(
    far: Bench, proxy: Proxy
) -> None:
    await far.backend.append(far.batch(Message(id := new_id(), "greet", b"hello", priority=HIGH)))
    async with opened(proxy.url, far.namespace) as newcomer:
        proxy.lose_reply(to=scripts.CLAIM.digest)
        with pytest.raises(BackendUnavailable):
            await newcomer.claim()
        assert [claim.id for claim in await newcomer.claim()] == [id]


async def test_what_was_seen_before_is_not_offered_again(far: Bench, proxy: Proxy) -> None:
    [first] = await far.add()
    held = await far.claim()
    [second] = await far.add()
    proxy.lose_reply(to=scripts.CLAIM.digest)
    with pytest.raises(BackendUnavailable):
        await far.claim()
    assert [claim.id for claim in held] == [first]
    assert [claim.id for claim in await far.claim()] == [second]


async def test_nothing_is_lost_when_a_large_claim_is_cut_in_the_middle(far: Bench, proxy: Proxy) -> None:
    ids = await far.add(100)
    proxy.lose_reply(to=b"XREADGROUP")  # the plain read that follows the script's
    claims = await far.claim()
    assert 0 < len(claims) < 100
    claims += await far.claim()
    assert [claim.id for claim in claims] == ids


async def test_what_a_lost_blocking_read_took_is_offered_again(
    far: Bench, proxy: Proxy, redis_server: Server
) -> None:
    proxy.lose_reply(to=b"BLOCK")
    waiting = asyncio.create_task(far.claim(wait=LONG))
    async with opened(redis_server.url, far.namespace) as near:
        [id] = await near.add()
        with pytest.raises(BackendUnavailable):
            await waiting
    assert [claim.id for claim in await far.claim(wait=LONG)] == [id]


async def test_a_lost_promotion_loses_nothing(far: Bench, proxy: Proxy) -> None:
    await far.backend.append(far.batch(Message(new_id(), "greet", b"", delay_us=1)))
    proxy.lose_reply(to=scripts.PROMOTE.digest)
    with pytest.raises(BackendUnavailable):
        await far.backend.promote([SOURCE], limit=100)
    assert (await far.backend.promote([SOURCE], limit=100)).next_in_us is None
    assert len(await far.claim()) == 1


# --- claims that wait ------------------------------------------------------------------------------------


async def test_what_came_since_a_vain_wait_is_claimed_within_the_bytes_of_a_claim(bench: Bench) -> None:
    sources = [Stream("queue", f"work-{number}") for number in range(10)]
    wanted = {"consumer": "worker", "limit": 100, "suspects": 1}
    assert await bench.backend.claim(sources, **wanted, wait=0.01) == []
    waited_until = time.monotonic()
    for number, source in enumerate(sources, 1):
        message = Message(new_id(), "greet", bytes(900_000))
        await bench.backend.append(Batch(source, "producer", number, [message]))
    await wait_until(lambda: time.monotonic() > waited_until + 2 * reader.IDLE_FOR)
    assert 1 <= len(await bench.backend.claim(sources, **wanted, wait=LONG)) <= 5


async def test_a_lane_that_was_left_out_is_read_as_any_other_once_it_is_wanted(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.backend.append(bench.batch(Message(id := new_id(), "greet", b"hello", child=True)))
    wanted = {"consumer": "worker", "limit": 1, "suspects": 1}
    assert await bench.backend.claim([SOURCE], **wanted, children=0, wait=0.01) == []
    claims = await bench.backend.claim([SOURCE], **wanted, children=1, wait=LONG)
    assert [claim.id for claim in claims] == [id]
    assert "made again" not in caplog.text


async def test_jobs_that_come_alone_are_claimed_without_a_script(
    bench: Bench, redis_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "IDLE_FOR", LONG)
    assert await _come_alone(bench) == 1
    before = calls_of(redis_server, "evalsha")
    assert [await _come_alone(bench) for _ in range(3)] == [1, 1, 1]
    assert calls_of(redis_server, "evalsha") - before == 3  # which have queued them


async def test_what_comes_together_after_one_that_came_alone_is_claimed_together(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "IDLE_FOR", LONG)
    monkeypatch.setattr(reader, "LULL", 0.25)
    await _come_alone(bench)
    await bench.add(50)
    assert [len(await bench.claim(wait=LONG)) for _ in range(2)] == [1, 49]


async def _come_alone(bench: Bench) -> int:
    """How many are claimed by one who waits for a while before a message comes."""
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    since = time.monotonic()
    await wait_until(lambda: time.monotonic() > since + 2 * reader.LULL)
    await bench.add()
    return len(await waiting)


# --- callers that go away --------------------------------------------------------------------------------


async def _read_for_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Messages that a blocking read brings after its caller was cancelled."""
    monkeypatch.setattr(BlockingRead, "unblock", lambda self: None)
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    ids = await bench.add()
    await wait_until(lambda: not bench.is_blocked(), message="the read has ended")
    return ids


async def test_what_comes_after_its_caller_is_gone_is_offered_to_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await _read_for_nobody(bench, monkeypatch)
    assert [claim.id for claim in await bench.claim()] == ids


async def test_what_nobody_took_is_handed_back_when_the_worker_leaves(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await _read_for_nobody(bench, monkeypatch)
    await leave(bench.backend, "worker", STREAM)
    [claim] = await bench.claim(consumer="another")
    assert ([claim.id], claim.state.releases, claim.state.crashes) == (ids, 0, 0)


async def test_what_a_read_took_whose_caller_is_gone_is_offered_again_when_its_answer_is_lost(
    far: Bench, proxy: Proxy, redis_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.lose_reply(to=b"BLOCK")
    async with opened(redis_server.url, far.namespace) as near:
        await far.claim()
        monkeypatch.setattr(BlockingRead, "unblock", lambda self: None)
        waiting = asyncio.create_task(far.claim(wait=LONG))
        await wait_until(lambda: far.is_blocked(), message="the claim blocks")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        [id] = await near.add()
        await wait_until(lambda: not far.is_blocked(), message="the read has ended")
    assert [claim.id for claim in await far.claim()] == [id]


async def test_a_cancelled_claim_stops_blocking(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BLOCK", LONG)  # it does not end by itself
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await wait_until(lambda: not bench.is_blocked(), message="the read has ended")


async def test_a_claim_that_waits_is_woken_at_once(bench: Bench) -> None:
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    bench.backend.wake("worker")
    assert await asyncio.wait_for(waiting, 10) == []


async def test_a_blocking_claim_takes_no_more_than_was_asked_for(bench: Bench) -> None:
    # The lanes are in use. Then a claim blocks without asking the script first, and finds a message in each.
    await bench.backend.append(bench.batch(*[Message(new_id(), "greet", b"", each) for each in range(3)]))
    await bench.settle(DONE, *await bench.claim())
    await bench.claim(wait=0.01)
    messages = [Message(new_id(), "greet", b"", priority) for priority in range(3)]
    await bench.backend.append(bench.batch(*messages))
    for message in messages:
        [claim] = await bench.claim(1, wait=LONG)
        assert (claim.id, claim.state.crashes, claim.state.releases) == (message.id, 0, 0)


async def test_what_came_while_the_process_stood_still_and_belongs_to_others_by_now_is_not_taken(
    bench: Bench, redis_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BLOCK", 1.0)
    monkeypatch.setattr(reader, "LATE", 0.0)

    async def meanwhile() -> None:
        async with opened(redis_server.url, bench.namespace) as other:
            await other.add()
            await other.age(60)
            assert len((await other.backend.reclaim([SOURCE], limit=10)).recovered) == 1

    waiting = asyncio.create_task(bench.claim(wait=LONG, suspects=0))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    thread = threading.Thread(target=lambda: asyncio.run(meanwhile()))
    thread.start()
    thread.join()  # this event loop stands still, as in a process that was stopped
    over_at = time.monotonic() + 1.0
    wait_until_sync(lambda: time.monotonic() >= over_at)
    bench.backend.wake("worker")
    assert await waiting == []


# --- a server that forgets -------------------------------------------------------------------------------


async def test_forgotten_scripts_are_loaded_again(bench: Bench, redis_server: Server) -> None:
    redis_server.command("SCRIPT", "FLUSH")
    ids = await bench.add(1200)
    redis_server.command("SCRIPT", "FLUSH")
    claims = await bench.claim(2000)
    assert [claim.id for claim in claims] == ids
    redis_server.command("SCRIPT", "FLUSH")
    leases = bench.backend.lease_keeper()
    assert set(await leases.renew(claims[:3])) == {Renewal.KEPT}
    await leases.close()
    redis_server.command("SCRIPT", "FLUSH")
    assert set(await bench.settle(DONE, *claims)) == {Verdict.KEPT}


async def test_destroyed_groups_are_made_again_and_nothing_is_lost(
    bench: Bench, redis_server: Server
) -> None:
    waiting_ids = await bench.add(3)
    _destroy_groups(bench, redis_server)
    assert [claim.id for claim in await bench.claim()] == waiting_ids


async def test_a_claim_that_waits_survives_the_end_of_its_groups(bench: Bench, redis_server: Server) -> None:
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    _destroy_groups(bench, redis_server)
    ids = await bench.add()
    assert [claim.id for claim in await waiting] == ids


async def test_an_entry_that_a_new_group_hands_out_again_is_fenced(
    bench: Bench, redis_server: Server
) -> None:
    await bench.add()
    [first] = await bench.claim(consumer="first")
    _destroy_groups(bench, redis_server)
    [second] = await bench.claim(consumer="second")
    assert cast(EntryToken, first.token).entry == cast(EntryToken, second.token).entry
    assert await bench.settle(Released(), first) == [Verdict.LOST]
    leases = bench.backend.lease_keeper()
    assert await leases.renew([first, second]) == [Renewal.LOST, Renewal.KEPT]
    await leases.close()
    assert await bench.settle(DONE, second) == [Verdict.KEPT]


async def test_work_goes_on_after_everything_was_flushed(bench: Bench, redis_server: Server) -> None:
    [lost] = await bench.add()
    await bench.claim()
    redis_server.command("FLUSHALL")
    ids = await bench.add(20)
    claims = await bench.claim(wait=LONG)
    assert [claim.id for claim in claims] == ids
    assert await bench.backend.get(STREAM, lost) is None


async def test_the_id_of_a_message_whose_stream_was_deleted_is_free(
    bench: Bench, redis_server: Server
) -> None:
    [id] = await bench.add()
    for key in _lanes(bench):
        redis_server.command("DEL", key)
    answers = await bench.backend.append(bench.batch(Message(id, "greet", b"again")))
    assert [answer.verdict for answer in answers] == ["accepted"]
    assert [claim.body for claim in await bench.claim()] == [b"again"]


async def test_nobody_holds_the_key_of_a_message_whose_stream_was_deleted(
    bench: Bench, redis_server: Server
) -> None:
    message = Message(new_id(), "greet", b"", unique=UniqueKey("key"))
    await bench.backend.append(bench.batch(message))
    assert await bench.backend.holders(STREAM, [Wanted(key="key")]) == [message.id]
    for key in _lanes(bench):
        redis_server.command("DEL", key)
    assert await bench.backend.holders(STREAM, [Wanted(key="key")]) == [None]


async def test_nothing_is_heard_of_another_database(redis_server: Server) -> None:
    heard: list[ControlMessage] = []
    namespace = new_id()
    other = redis_server.url.removesuffix("/0") + "/1"
    async with opened(redis_server.url, namespace) as here, opened(other, namespace) as there:
        here.backend.listen(heard.append)
        await here.backend.pause(STREAM, paused=True)
        await wait_until(lambda: PauseNotice(STREAM, True) in heard, message="the subscription stands")
        await there.backend.pause(STREAM, paused=False)
        await here.backend.pause(STREAM, paused=True)
        await wait_until(lambda: heard.count(PauseNotice(STREAM, True)) == 2, message="the last is heard")
    assert PauseNotice(STREAM, False) not in heard


# --- cut connections -------------------------------------------------------------------------------------


async def test_cut_connections_are_made_again(bench: Bench, redis_server: Server) -> None:
    heard: list[ControlMessage] = []
    bench.backend.listen(heard.append)
    await bench.add()
    [claim] = await bench.claim()
    ended = asyncio.create_task(bench.backend.wait_for_end(STREAM, claim.id, None))
    await wait_until(lambda: bench.is_awaited(claim.id), message="the caller waits for the end")
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    for kind in ("normal", "pubsub"):
        redis_server.command("CLIENT", "KILL", "TYPE", kind)
    with pytest.raises(BackendUnavailable):
        await waiting
    [verdict] = await bench.again(lambda: bench.settle(Done(Kept(b"42", 60 * SECOND)), claim))
    assert verdict is Verdict.KEPT
    assert (await ended).result == b"42"
    ids = await bench.add()
    assert [claim.id for claim in await bench.claim(wait=LONG)] == ids

    async def is_heard() -> bool:
        await bench.backend.pause(STREAM, paused=False)
        return PauseNotice(STREAM, False) in heard

    await wait_until(is_heard, message="orders are heard again")


async def test_an_end_that_was_announced_to_nobody_is_noticed(
    far: Bench, proxy: Proxy, redis_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "REMINDED", 3600.0)  # it asks again because the connection is back
    [id] = await far.add()
    ended = asyncio.create_task(far.backend.wait_for_end(STREAM, id, None))
    await wait_until(lambda: _is_watched(far, id), message="somebody waits")
    async with opened(redis_server.url, far.namespace) as near:
        proxy.cut()
        await near.settle(Done(Kept(b"42", 60 * SECOND)), *await near.claim())
        proxy.mend()
        assert (await asyncio.wait_for(ended, LONG)).result == b"42"


async def test_a_lease_keeper_connects_again(bench: Bench, redis_server: Server) -> None:
    await bench.add()
    claims = await bench.claim()
    leases = bench.backend.lease_keeper()
    assert await leases.renew(claims) == [Renewal.KEPT]
    redis_server.command("CLIENT", "KILL", "TYPE", "normal")
    with pytest.raises(BackendUnavailable):
        await leases.renew(claims)
    assert await leases.renew(claims) == [Renewal.KEPT]
    await leases.close()


async def test_a_connection_that_leads_nowhere_is_noticed(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(proxy.url) as far:
        monkeypatch.setattr(connection, "REPLY_TIMEOUT", 0.3)
        monkeypatch.setattr(connection, "CONNECT_TIMEOUT", 0.3)
        proxy.hold()
        with pytest.raises(BackendUnavailable, match="did not answer in time") as caught:
            await far.add()
        assert caught.value.uncertain
        with pytest.raises(BackendUnavailable, match="cannot be reached") as caught:
            await far.add()
        assert not caught.value.uncertain


async def test_a_slow_connection_is_not_taken_for_a_dead_one(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(proxy.url) as far:
        await far.add()
        await far.settle(DONE, *await far.claim())  # the scripts are there
        monkeypatch.setattr(connection, "REPLY_TIMEOUT", 1.5)
        proxy.piece, proxy.delay = 10_000, 0.1
        [id] = await far.add(body=bytes(200_000))  # two seconds each way
        [claim] = await far.claim()
        assert (claim.id, len(claim.body)) == (id, 200_000)


async def test_a_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    with Server(require("valkey-9.1"), directory=tmp_path, appendonly=True) as server:
        async with opened(server.url) as bench:
            ids = await bench.add(2)
            server.kill()
            with pytest.raises(BackendUnavailable):
                await bench.claim(wait=LONG)
            await wait_until(lambda: bench.backend._store.link.wire is None, message="the end is noticed")
            with pytest.raises(BackendUnavailable) as caught:
                await bench.add()
            assert not caught.value.uncertain
            server.start()
            claims = await bench.again(bench.claim)
            assert [claim.id for claim in claims] == ids


async def test_of_many_workers_one_looks_and_the_others_cost_one_command(redis_server: Server) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(opened(redis_server.url))
        others = [
            await stack.enter_async_context(opened(redis_server.url, first.namespace)) for _ in range(5)
        ]
        await first.add(3)
        await first.claim()

        async def look(bench: Bench) -> Reclaimed:
            reclaimed: Reclaimed = await bench.backend.reclaim([SOURCE], limit=10, every_us=60 * SECOND)
            return reclaimed

        assert not (await look(first)).others_turn
        looked = calls_of(redis_server, "xpending")
        assert all([(await look(other)).others_turn for other in others])
        assert calls_of(redis_server, "xpending") == looked


async def test_the_turn_stays_with_its_worker_however_many_others_ask(redis_server: Server) -> None:
    """A worker that is new to the turn looks at nothing. In a fleet of hundreds some worker asks at any time:
    if the turn moved on to it, nothing would be recovered."""
    every_us = 60 * SECOND
    async with opened(redis_server.url) as first, opened(redis_server.url, first.namespace) as other:
        await first.add()
        await first.claim()

        async def has_turn(bench: Bench) -> bool:
            return not (await bench.backend.reclaim([SOURCE], limit=10, every_us=every_us)).others_turn

        assert await has_turn(first)
        turns = first.backend._recoverer._turns
        [key] = turns._taken
        for _ in range(2):
            # The worker asks again at most a twentieth later than `every_us`.
            assert await first.command("PTTL", key) > 1.1 * every_us / 1000
            turns._taken[key] -= every_us
            assert not await has_turn(other)
            assert await has_turn(first)


async def test_what_a_worker_has_left_is_looked_at_until_its_lease_has_run_out(bench: Bench) -> None:
    backend, every_us = bench.backend, SECOND // 2
    sources = [Stream("queue", f"work-{number}") for number in range(60)]
    for source in sources[::4]:
        await backend.append(Batch(source, "producer", 1, [Message(new_id(), "greet", b"hello")]))
    held = await backend.claim(sources, consumer="gone", limit=100, suspects=1, wait=0)
    recovered: list[Recovery] = []

    async def has_turn() -> bool:
        look = await backend.reclaim(sources, limit=100, every_us=every_us)
        recovered.extend(look.recovered)
        return not look.others_turn

    for _ in range(2):  # nothing, then everything: no worker is gone yet
        await wait_until(has_turn)
    queues = tuple(source.name for source in sources)
    seen = WorkerEntry(backend._store.now_us(), WorkerInfo("gone", "host", 1, 1, queues, 10))
    await backend._store.command("HSET", backend._store.keys.workers, "gone", encode_worker(seen))
    await wait_until(has_turn)
    assert await backend.prune(limit=10) == 1
    await bench.age(60)
    for _ in range(3):  # more turns than one, since a look that was just made is enough
        await wait_until(has_turn)
    assert len(recovered) == len(held) == 15


def calls_of(server: Server, command: str) -> int:
    told = text_of(server, "INFO", "commandstats").decode()
    found = re.search(rf"cmdstat_{command}:calls=(\d+)", told)
    return int(found[1]) if found else 0


async def test_a_heartbeat_that_finds_no_change_costs_three_commands(tmp_path: Path) -> None:
    """Most of what an idle worker sends are heartbeats."""
    worker = WorkerInfo("worker", "host", 1, 1, (SOURCE.name,), 10)
    with Server(require("valkey-9.1"), directory=tmp_path) as server:
        async with opened(server.url) as bench:
            await bench.backend.declare_limits([pause_of("send", paused=True)])

            async def beats(count: int) -> ControlState:
                for _ in range(count):
                    state: ControlState = await bench.backend.heartbeat(worker, {"worker": [SOURCE]})
                return state

            await beats(2)
            server.command("CONFIG", "RESETSTAT")
            await beats(5)
            sent = {name: calls_of(server, name) for name in ("hset", "hmget", "mget", "get", "hgetall")}
            assert sent == {"hset": 5, "hmget": 5, "mget": 5, "get": 0, "hgetall": 0}
            figures = f"{{{bench.namespace}:limits}}:figures"
            server.command("SET", figures, "something else")
            assert (await beats(READ_AGAIN + 1)).paused_tasks == {"send"}
            assert (await beats(1)).paused_tasks == {"send"}
            assert server.command("TYPE", figures) == b"hash"


async def test_one_script_recovers_a_bounded_number_of_messages(bench: Bench) -> None:
    await bench.add(recovery.MOST + 1)
    await bench.claim()
    await bench.age(60)
    first, second = [await bench.backend.reclaim([SOURCE], limit=1000) for _ in range(2)]
    assert (len(first.recovered), first.more) == (recovery.MOST, True)
    assert (len(second.recovered), second.more) == (1, False)


async def test_a_look_at_very_many_held_messages_is_divided(bench: Bench, redis_server: Server) -> None:
    """The server walks over those that are fine. For 30,000 in one call it would need 5 ms."""
    for _ in range(12):
        await bench.add(1000)
    claimed: list[str] = []
    while claims := await bench.claim():  # on a slow machine, one claim may bring less than it asks for
        claimed += [claim.id for claim in claims]
    before = calls_of(redis_server, "evalsha")
    assert (await bench.backend.reclaim([SOURCE], limit=100)).recovered == ()
    assert calls_of(redis_server, "evalsha") > before + 1
    await bench.age(20)
    recovered: list[str] = []
    while found := (await bench.backend.reclaim([SOURCE], limit=1000)).recovered:
        recovered += [each.id for each in found]
    assert len(claimed) == 12_000
    assert sorted(recovered) == sorted(claimed)


async def test_one_look_at_the_consumers_of_a_stream_is_enough_for_all_workers(tmp_path: Path) -> None:
    with Server(require("valkey-9.1"), directory=tmp_path) as server:
        async with opened(server.url, "shared") as first, opened(server.url, "shared") as second:
            await first.claim()
            server.command("CONFIG", "RESETSTAT")
            for _ in range(2):
                await first.backend.prune(limit=100)
                await second.backend.prune(limit=100)
            assert calls_of(server, r"xinfo\|consumers") == 1


async def test_a_look_at_the_consumers_of_a_removed_stream_leaves_no_record(bench: Bench) -> None:
    queue: StreamScripts = bench.backend._store.queue(Stream("queue", "removed"))
    await bench.backend._store.run(queue.call(scripts.FORGET_CONSUMERS, 0, 10, 0))
    assert await bench.command("EXISTS", queue.keys.meta) == 0


async def test_after_a_restart_of_the_server_nobody_is_robbed_for_one_lease(tmp_path: Path) -> None:
    with Server(require("valkey-9.1"), directory=tmp_path, appendonly=True) as server:
        async with opened(server.url) as bench:
            await bench.add()
            [claim] = await bench.claim()
            assert (await bench.backend.reclaim([SOURCE], limit=10)).recovered == ()
            server.restart()
            await bench.again(lambda: bench.backend.counts(STREAM))
            await bench.age(60)
            assert (await bench.backend.reclaim([SOURCE], limit=10)).recovered == ()
            assert await bench.settle(DONE, claim) == [Verdict.KEPT]


async def test_after_a_restart_of_the_server_not_even_the_first_call_robs_anybody(tmp_path: Path) -> None:
    with Server(require("valkey-9.1"), directory=tmp_path, appendonly=True) as server:
        async with opened(server.url) as bench:
            await bench.add()
            await bench.claim()
            assert (await bench.backend.reclaim([SOURCE], limit=10)).recovered == ()
            server.restart()
            await wait_until(lambda: bench.backend._store.link.wire is None, message="the end is noticed")
            async with opened(server.url, bench.namespace) as other:
                await other.age(60)
            reclaimed = await bench.again(lambda: bench.backend.reclaim([SOURCE], limit=10))
            assert reclaimed.recovered == ()


# --- a server that cannot or must not be used ------------------------------------------------------------


@pytest.mark.parametrize("kind", rows())
async def test_out_of_memory_refuses_new_messages_but_lets_those_there_end(kind: str, tmp_path: Path) -> None:
    with Server(require(kind), directory=tmp_path) as server:
        async with opened(server.url) as bench:
            await bench.add(4)
            done, failed, dead, cancelled = await bench.claim()
            server.command("CONFIG", "SET", "maxmemory", "1mb")
            [refused] = await bench.backend.append(bench.batch(Message(new_id(), "greet", b"")))
            assert (refused.verdict, "OOM" in refused.why) == ("full", True)
            assert await bench.settle(DONE, done) == [Verdict.KEPT]
            retry = Retry(failed.state.failed(TrailEntry(1, "failed", "worker")), 1)
            assert await bench.settle(retry, failed) == [Verdict.KEPT]
            buried = Dead(dead.state, DeadReason.EXHAUSTED, Failure("Error", "no"))
            assert await bench.settle(buried, dead) == [Verdict.KEPT]
            assert await bench.settle(Cancelled(60 * SECOND), cancelled) == [Verdict.KEPT]
            assert await bench.backend.prune(limit=10) == 0
            with pytest.raises(BackendUnavailable, match="out of memory"):
                await bench.backend.promote([SOURCE], limit=10)
            server.command("CONFIG", "SET", "maxmemory", "0")
            assert (await bench.backend.promote([SOURCE], limit=10)).count == 1
            assert [claim.id for claim in await bench.claim()] == [failed.id]


async def test_a_server_that_evicts_jobs_is_refused(redis_server: Server) -> None:
    redis_server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(ConfigurationError, match="noeviction"):
            await open_store(redis_server.url).open()
    finally:
        redis_server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_password_is_given_and_never_shown(tmp_path: Path) -> None:
    with Server(require("redis-7.0"), directory=tmp_path, arguments=["--requirepass", "hush"]) as server:
        url = f"redis://:hush@127.0.0.1:{server.port}/3"
        async with opened(url) as bench:
            await bench.add()
            [claim] = await bench.claim()
            assert bench.backend.description == f"Redis {_version(bench)} at 127.0.0.1:{server.port}/3"
            leases = bench.backend.lease_keeper()
            assert await leases.renew([claim]) == [Renewal.KEPT]
            await leases.close()
        with pytest.raises(ConfigurationError) as caught:
            await open_store(url.replace("hush", "loud")).open()
        assert "loud" not in str(caught.value)


async def test_a_server_is_reached_over_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    with Server(require("redis-6.2"), directory=tmp_path, arguments=["--unixsocket", str(path)]):
        async with opened(f"unix://{path}?db=2") as bench:
            await bench.add()
            claims = await bench.claim(wait=LONG)
            leases = bench.backend.lease_keeper()
            assert await leases.renew(claims) == [Renewal.KEPT]
            await leases.close()
            assert bench.backend.description.endswith(f"at {path}/2")


# --- bounds ----------------------------------------------------------------------------------------------


async def test_large_bodies_are_moved_in_small_steps(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    large = [Message(new_id(), "greet", bytes(400_000)) for _ in range(6)]
    await bench.backend.append(bench.batch(*large))
    claims: list[Claim] = []
    while len(claims) < len(large):  # a slow server brings them in several portions
        claims += await bench.claim()
    await bench.settle(Retry(claims[0].state, 1), *claims)
    steps: list[int] = []
    promote = promotion._promote

    async def counted(
        store: RedisServer, queue: StreamScripts, limit: int
    ) -> promotion._Answer | BackendUnavailable:
        answer = await promote(store, queue, limit)
        assert isinstance(answer, promotion._Answer)
        steps.append(answer.count)
        return answer

    monkeypatch.setattr(promotion, "_promote", counted)
    while (await bench.backend.promote([SOURCE], limit=100)).next_in_us is not None:
        pass
    assert [number for number in steps if number] == [3, 3]
    dead = Dead(claims[0].state, DeadReason.EXHAUSTED, Failure("Error", "no"))
    claims = []
    while len(claims) < len(large):
        claims += await bench.claim()
    assert await bench.settle(dead, *claims) == [Verdict.KEPT] * 6
    page = await bench.backend.dead_letters(STREAM, only=DeadFilter())
    assert {letter.id for letter in page} == {message.id for message in large}
    ids = [message.id for message in large]
    assert await bench.backend.replay(STREAM, ids) == [ReplayAnswer.REPLAYED] * 6
    purged = [await bench.backend.purge(STREAM, ttl_us=0, limit=100) for _ in range(3)]
    assert purged == [3, 3, 0]


# --- durability ------------------------------------------------------------------------------------------


async def test_replicated_means_that_a_replica_has_it(tmp_path: Path) -> None:
    program = require("valkey-9.1")
    with Server(program, directory=tmp_path / "primary", arguments=QUICKLY) as primary:
        backend = open_store(primary.url, durability="replicated")
        await backend.open()
        try:
            alone, together = (Batch(STREAM, "p", number, [Message(new_id(), "", b"")]) for number in (1, 2))
            with pytest.raises(NotConfirmed) as caught:
                await backend.append(alone)
            assert caught.value.uncertain
            assert (await backend.counts(STREAM)).queued == 1
            arguments = ["--replicaof", f"127.0.0.1 {primary.port}"]
            with Server(program, directory=tmp_path / "replica", arguments=arguments):
                await wait_until(lambda: _has_replica(primary), timeout=20, message="the replica is in step")
                for batch in (alone, together):
                    assert await backend.append(batch) == [Answer(batch.messages[0].id)]
        finally:
            await backend.close()


async def test_fsync_waits_for_the_disk(tmp_path: Path) -> None:
    with Server(require("valkey-9.1"), directory=tmp_path, appendonly=True) as server:
        backend = open_store(server.url, durability="fsync")
        await backend.open()
        try:
            message = Message(new_id(), "", b"")
            assert await backend.append(Batch(STREAM, "p", 1, [message])) == [Answer(message.id)]
        finally:
            await backend.close()


async def test_fsync_is_refused_where_the_server_cannot(redis_server: Server) -> None:
    backend = open_store(redis_server.url, durability="fsync")
    with pytest.raises(ConfigurationError, match="appendonly"):
        await backend.open()
    await backend.close()


def test_an_unknown_durability_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="replicated"):
        open_store("redis://localhost", durability="relaxed")


# --- what is left behind ---------------------------------------------------------------------------------


async def test_nothing_of_a_job_is_left_without_a_time_to_live(bench: Bench) -> None:
    unique = UniqueKey("key")
    messages = [
        Message(new_id(), "greet", b"", unique=unique),
        *[Message(new_id(), "greet", b"") for _ in range(5)],
    ]
    await bench.backend.append(bench.batch(*messages, Message(new_id(), "greet", b"", delay_us=60 * SECOND)))
    done, kept, cancelled, dead, retried, told = await bench.claim()
    waiting = asyncio.create_task(bench.backend.wait_for_end(STREAM, done.id, None))
    await bench.backend.wait_for_end(STREAM, kept.id, 0.001)
    await bench.backend.cancel(STREAM, told.id, ttl_us=SECOND)
    reports = [Report(claim, 0.5, "half") for claim in (done, kept, cancelled, dead, retried, told)]
    await bench.backend.report_progress(reports)
    await wait_until(lambda: _is_watched(bench, done.id), message="somebody waits")
    await bench.settle(DONE, done)
    await waiting
    await bench.settle(Done(Kept(b"42", SECOND)), kept)
    await bench.settle(Cancelled(SECOND), cancelled)
    await bench.settle(Dead(dead.state, DeadReason.EXHAUSTED, Failure("Error", "no")), dead)
    await bench.settle(Retry(retried.state.failed(TrailEntry(1, "failed", "worker")), 60 * SECOND), retried)
    await bench.settle(Released(), told)
    await bench.backend.discard(STREAM, [dead.id])
    assert await bench.backend.purge(STREAM, ttl_us=SECOND, limit=100) == 2
    await beat(bench.backend, WorkerInfo("worker", "host", 1, 1, ("work",), 10))
    await leave(bench.backend, "worker", STREAM)
    lasting = [key for key in await _keys(bench) if await bench.command("PTTL", key) == -1]
    assert [key for key in lasting if not is_permanent(key)] == []


async def test_a_consumer_leaves_no_name_behind(bench: Bench) -> None:
    await bench.claim(wait=0.01)
    await leave(bench.backend, "worker", STREAM)
    for key in _lanes(bench):
        assert await bench.command("XINFO", "CONSUMERS", key, "headrace") == []


async def test_a_consumer_that_holds_something_stays(bench: Bench) -> None:
    await bench.add()
    [claim] = await bench.claim()
    await leave(bench.backend, "worker", STREAM)
    assert (await bench.backend.get(STREAM, claim.id)).worker == "worker"


async def _is_watched(bench: Bench, id: str) -> bool:
    key = f"{{{bench.namespace}:q:{STREAM.name}}}:w"
    return bool(await bench.command("HEXISTS", key, id))


def _lanes(bench: Bench) -> list[bytes]:
    """Those that are in use."""
    backend: RedisStore = bench.backend
    return [backend._store.queue(STREAM).keys.by_lane[NORMAL_LANE]]


def _destroy_groups(bench: Bench, server: Server) -> None:
    for key in _lanes(bench):
        server.command("XGROUP", "DESTROY", key, "headrace")


def _has_replica(server: Server) -> bool:
    answer = server.command("INFO", "replication")
    return isinstance(answer, bytes) and b"state=online" in answer


def _version(bench: Bench) -> str:
    version: str = bench.backend._store.server.version
    return version


async def _keys(bench: Bench) -> list[str]:
    keys = await bench.command("KEYS", f"*{bench.namespace}*")
    return [key.decode() for key in keys]


async def test_two_workers_of_one_process_look_for_what_was_left_at_the_same_time(bench: Bench) -> None:
    sources = [Stream("queue", name) for name in ("a", "b", "c")]
    for source in sources:
        await bench.backend.declare_stream(source, 15 * SECOND)
        await bench.backend.append(Batch(source, "p", 1, [Message(new_id(), "greet", b"")]))
    await bench.backend.claim(sources, consumer="gone", limit=10, suspects=1, wait=0)
    await bench.age(60)
    looks = await asyncio.gather(*[bench.backend.reclaim(sources, limit=10) for _ in range(4)])
    assert sum(len(look.recovered) for look in looks) == len(sources)


async def test_a_lease_that_is_renewed_after_the_look_is_not_taken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at what is overdue and the recovery are two steps, and a worker may renew in between."""
    await bench.add()
    claims = await bench.claim()
    await bench.age(60)
    leases, take = bench.backend.lease_keeper(), Recoverer._take

    async def renew_and_take(
        self: Recoverer, queue: StreamScripts, lease_ms: int, overdue: list[Overdue]
    ) -> list[Recovery]:
        assert len(overdue) == 1
        assert await leases.renew(claims) == [Renewal.KEPT]
        return await take(self, queue, lease_ms, overdue)

    monkeypatch.setattr(Recoverer, "_take", renew_and_take)
    assert (await bench.backend.reclaim([SOURCE], limit=10)).recovered == ()
    await leases.close()
    assert await bench.settle(DONE, *claims) == [Verdict.KEPT]
