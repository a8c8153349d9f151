"""Limits and order keys on Redis under faults: lost replies, workers that die, no memory, deleted keys, older
workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace import App
from headrace.core.errors import BackendUnavailable
from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import FRESH, Message
from headrace.core.messages.outcome import (
    DONE,
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Expired,
    Failure,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
    Verdict,
)
from headrace.core.records.answers import CancelAnswer, Renewal
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.stores.redis import scripts
from headrace.stores.redis.keys import GROUP
from headrace.testing.contract.kit.heartbeats import leave
from tests.integration.support.lossy_proxy import Proxy
from tests.integration.support.redis_bench import LONG, SOURCE, STREAM, Bench, opened
from tests.support.permanent_keys import is_permanent
from tests.support.servers import Server, require, rows
from tests.support.waiting import wait_until

STRIPE = Constraints((LimitKey("stripe"),))
BY_CUSTOMER = Constraints((LimitKey("stripe"), LimitKey("customer", "7")), "acme")

FAILURE = Failure("Error", "no")


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
        for script in (*known, *scripts.LIMITED.values()):
            await bench.command("SCRIPT", "LOAD", script.source)
        yield bench


async def add(
    bench: Bench,
    number: int = 1,
    constraints: Constraints | None = STRIPE,
    *,
    key: str = "",
    body: bytes = b"hello",
) -> list[str]:
    messages = [Message(new_id(), "greet", body, constraints=constraints, key=key) for _ in range(number)]
    answers = await bench.backend.append(bench.batch(*messages))
    assert {answer.verdict for answer in answers} == {"accepted"}
    return [message.id for message in messages]


async def limit_to(bench: Bench, most: int) -> None:
    await bench.backend.declare_limits([LimitFigures("stripe", most), LimitFigures("customer", most)])


async def stripe(bench: Bench) -> LimitRecord:
    records: list[LimitRecord] = await bench.backend.limits()
    return next(record for record in records if record.figures.name == "stripe")


async def counted(bench: Bench) -> tuple[int, int]:
    record = await stripe(bench)
    return record.running, record.waiting


async def drained(bench: Bench, *, consumer: str = "worker") -> list[str]:
    """Claim and end everything that is left, and check that nothing stays behind."""
    ids: list[str] = []
    while claims := await bench.claim(consumer=consumer):
        ids += [claim.id for claim in claims]
        await bench.settle(DONE, *claims)
    assert await counted(bench) == (0, 0)
    keys = await bench.command("KEYS", f"*{bench.namespace}*")
    times = [await bench.command("PTTL", key) for key in keys]
    lasting = [key.decode() for key, time in zip(keys, times, strict=True) if time == -1]
    assert [key for key in lasting if not is_permanent(key)] == []
    return ids


async def test_a_worker_that_opens_lines_for_tokens_keeps_the_turn(redis_server: Server) -> None:
    """It promotes no message then. It must not wait for another worker before it asks."""
    app = App(redis_server.url, namespace=new_id())
    started: list[int] = []

    @app.task(rate_limit="20/s")
    async def call(number: int) -> None:
        started.append(number)

    async with app, app.worker():
        await app.enqueue_many([call.call(number) for number in range(60)])
        # Three seconds are enough. A worker that waits for another one before it asks needs half a minute.
        await wait_until(lambda: len(started) == 60, timeout=12)


# --- the request arrives and the reply is lost ------------------------------------------------------------


async def test_a_batch_whose_reply_was_lost_is_stored_once(far: Bench, proxy: Proxy) -> None:
    await limit_to(far, 1)
    batch = far.batch(*[Message(new_id(), "greet", b"", constraints=STRIPE) for _ in range(3)])
    proxy.lose_reply(to=scripts.APPEND_LIMITED.digest)
    with pytest.raises(BackendUnavailable):
        await far.backend.append(batch)
    assert [answer.verdict for answer in await far.backend.append(batch)] == ["accepted"] * 3
    assert await counted(far) == (0, 3)
    assert len(await drained(far)) == 3


async def test_what_a_lost_claim_took_is_offered_to_the_same_consumer_again(far: Bench, proxy: Proxy) -> None:
    await limit_to(far, 2)
    ids = await add(far, 5, BY_CUSTOMER)
    proxy.lose_reply(to=scripts.CLAIM_LINES.digest)
    with pytest.raises(BackendUnavailable):
        await far.claim()
    assert await counted(far) == (2, 3)
    assert await far.claim(consumer="another") == []
    claims = await far.claim()
    assert [claim.id for claim in claims] == ids[:2]
    assert [claim.constraints for claim in claims] == [BY_CUSTOMER] * 2
    assert await far.settle(DONE, *claims) == [Verdict.KEPT] * 2
    assert await drained(far) == ids[2:]


OUTCOMES: dict[str, tuple[Outcome, scripts.Script]] = {
    "done": (Done(), scripts.FINISH),
    "retry": (Retry(FRESH, 0), scripts.RUN_AGAIN),
    "retry later": (Retry(FRESH, 60 * SECOND), scripts.RUN_AGAIN),
    "snoozed": (Snoozed(FRESH, 0), scripts.RUN_AGAIN),
    "released": (Released(unstarted=True), scripts.RUN_AGAIN),
    "dead": (Dead(FRESH, DeadReason.EXHAUSTED, FAILURE), scripts.BURY),
    "cancelled": (Cancelled(SECOND), scripts.CONCLUDE),
    "expired": (Expired(SECOND), scripts.CONCLUDE),
}


@pytest.mark.parametrize("name", OUTCOMES)
async def test_a_settlement_whose_reply_was_lost_gives_one_slot_back(
    far: Bench, proxy: Proxy, name: str
) -> None:
    outcome, script = OUTCOMES[name]
    await limit_to(far, 2)
    await add(far, 4)
    first, second = await far.claim()
    proxy.lose_reply(to=scripts.LIMITED[script].digest)
    with pytest.raises(BackendUnavailable):
        await far.settle(outcome, first)
    assert (await stripe(far)).running == 1
    again = Verdict.GONE if name == "done" else Verdict.LOST
    assert await far.settle(outcome, first) == [again]
    assert (await stripe(far)).running == 1
    assert len(await far.claim()) == 1
    assert (await stripe(far)).running == 2
    assert await far.settle(DONE, second) == [Verdict.KEPT]


async def test_the_end_of_a_keyed_job_whose_reply_was_lost_lets_one_in(far: Bench, proxy: Proxy) -> None:
    await limit_to(far, 1)
    ids = await add(far, 3, None, key="a")
    [claim] = await far.claim()
    proxy.lose_reply(to=scripts.LIMITED[scripts.FINISH].digest)
    with pytest.raises(BackendUnavailable):
        await far.settle(DONE, claim)
    assert await far.settle(DONE, claim) == [Verdict.GONE]
    assert await drained(far) == ids[1:]


# --- a worker dies, or is gone ----------------------------------------------------------------------------


async def test_the_ticket_of_a_worker_that_died_delays_no_other(bench: Bench, redis_server: Server) -> None:
    """The worker is gone after its read has brought the ticket. The next message wakes another one."""
    await limit_to(bench, 5)
    await add(bench)
    await drained(bench)
    prefix = f"{{{bench.namespace}:q:{STREAM.name}}}:"
    ticket = f"{prefix}s:normal/open"
    ids = await add(bench)
    read = ("XREADGROUP", "GROUP", GROUP, "gone", "COUNT", 1, "STREAMS", ticket, ">")
    assert await bench.command(*read)
    assert await drained(bench) == ids
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(bench.is_blocked, message="the claim waits at the server")
    async with opened(redis_server.url, bench.namespace) as other:
        ids = await add(other)
    claims: list[Claim] = await asyncio.wait_for(waiting, LONG)
    assert [claim.id for claim in claims] == ids
    await bench.settle(DONE, *claims)


async def test_a_worker_that_leaves_forgets_its_name_where_lines_are_out_of_use(bench: Bench) -> None:
    """A read that was under way when the lines went out of use brings the name back, on newer servers also
    when it brings nothing."""
    await limit_to(bench, 1)
    await add(bench)
    await drained(bench)
    await bench.backend.prune(limit=100)
    ticket = f"{{{bench.namespace}:q:{STREAM.name}}}:s:normal/open"
    await bench.command("XGROUP", "CREATECONSUMER", ticket, GROUP, "worker")
    await leave(bench.backend, "worker", STREAM)
    assert await bench.command("XINFO", "CONSUMERS", ticket, GROUP) == []


async def test_the_slots_of_a_dead_worker_come_back_with_its_recovery(bench: Bench) -> None:
    await limit_to(bench, 2)
    ids = await add(bench, 3, BY_CUSTOMER)
    assert len(await bench.claim(consumer="dead")) == 2
    assert await bench.claim() == []
    await bench.age(60)
    reclaimed = await bench.backend.reclaim([SOURCE], limit=10)
    assert len(reclaimed.recovered) == 2
    assert await counted(bench) == (0, 3)
    assert set(await drained(bench)) == set(ids)


async def test_a_run_is_renewed_listed_and_cancelled_as_any_other(bench: Bench) -> None:
    await limit_to(bench, 1)
    first, second = await add(bench, 2, BY_CUSTOMER)
    [claim] = await bench.claim()
    keeper = bench.backend.lease_keeper()
    assert await keeper.renew([claim]) == [Renewal.KEPT]
    await bench.backend.report_progress([Report(claim, 0.5, "half")])
    running = await bench.backend.messages(STREAM, status=JobStatus.RUNNING)
    assert [(record.id, record.worker) for record in running] == [(first, "worker")]
    assert (await bench.backend.get(STREAM, first)).progress.fraction == 0.5
    queued = await bench.backend.messages(STREAM, status=JobStatus.QUEUED)
    assert [(record.id, record.waiting_for) for record in queued] == [(second, "stripe")]
    assert await bench.claim() == []
    assert await bench.backend.cancel(STREAM, first, ttl_us=SECOND) is CancelAnswer.REQUESTED
    assert await keeper.renew([claim]) == [Renewal.CANCELLED]
    await keeper.close()
    assert await bench.settle(Released(), claim) == [Verdict.KEPT]
    assert (await bench.backend.get(STREAM, first)).status is JobStatus.CANCELLED
    assert await drained(bench) == [second]


async def test_an_older_version_that_forgets_the_lines_stops_nothing(bench: Bench) -> None:
    """It drops the letters of lanes that it does not know. The next look mends that."""
    await limit_to(bench, 1)
    ids = await add(bench, 2)
    await bench.claim(consumer="dead")
    meta = f"{{{bench.namespace}:q:{STREAM.name}}}:meta"
    await bench.command("HDEL", meta, "lanes")
    await bench.backend.promote([SOURCE], limit=10)
    await bench.age(60)
    assert len((await bench.backend.reclaim([SOURCE], limit=10)).recovered) == 1
    assert await drained(bench) == ids


# --- no memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", rows())
async def test_out_of_memory_refuses_new_messages_but_lets_those_there_run(kind: str, tmp_path: Path) -> None:
    with Server(require(kind), directory=tmp_path) as server:
        async with opened(server.url) as bench:
            await limit_to(bench, 4)
            await add(bench, 4)
            keyed = await add(bench, 2, STRIPE, key="a")
            done, failed, dead, cancelled = await bench.claim()
            server.command("CONFIG", "SET", "maxmemory", "1mb")
            batch = bench.batch(Message(new_id(), "greet", b"", constraints=STRIPE))
            [refused] = await bench.backend.append(batch)
            assert (refused.verdict, "OOM" in refused.why) == ("full", True)
            assert await bench.settle(DONE, done) == [Verdict.KEPT]
            assert await bench.settle(Retry(FRESH, 0), failed) == [Verdict.KEPT]
            buried = Dead(FRESH, DeadReason.EXHAUSTED, FAILURE)
            assert await bench.settle(buried, dead) == [Verdict.KEPT]
            assert await bench.settle(Cancelled(SECOND), cancelled) == [Verdict.KEPT]
            assert await counted(bench) == (0, 2)
            claims = await bench.claim()
            assert {claim.id for claim in claims} == {failed.id, keyed[0]}
            assert await bench.settle(DONE, *claims) == [Verdict.KEPT] * 2
            server.command("CONFIG", "SET", "maxmemory", "0")
            assert await bench.backend.discard(STREAM, [dead.id]) == 1
            assert await drained(bench) == [keyed[1]]


# --- what was deleted by hand, and older workers ----------------------------------------------------------


async def test_slots_of_deleted_entries_come_back(bench: Bench) -> None:
    await limit_to(bench, 2)
    await add(bench, 3)
    await bench.claim()
    held = f"{{{bench.namespace}:q:{STREAM.name}}}:s:held"
    [[entry, _], _] = await bench.command("XRANGE", held, "-", "+")
    await bench.command("XDEL", held, entry)
    await bench.backend.promote([SOURCE], limit=10)
    assert await counted(bench) == (1, 1)
    assert len(await bench.claim()) == 1


async def test_an_entry_that_no_claim_holds_comes_first(bench: Bench) -> None:
    await limit_to(bench, 100)
    ids = await add(bench, 2)
    assert len(await bench.claim(limit=1)) == 1
    await bench.command("XGROUP", "DESTROY", f"{{{bench.namespace}:q:{STREAM.name}}}:s:held", GROUP)
    assert [claim.id for claim in await bench.claim(consumer="other")] == ids


async def test_a_claim_asks_for_sizes_only_while_lines_may_hold_a_large_message(bench: Bench) -> None:
    await limit_to(bench, 100)
    meta = f"{{{bench.namespace}:q:{STREAM.name}}}:meta"
    await add(bench)
    assert await bench.command("HGET", meta, "bulky") is None
    await add(bench, body=bytes(5000))
    assert await bench.command("HGET", meta, "bulky") == b"1"
    await drained(bench)
    assert await bench.command("HGET", meta, "bulky") is None


async def test_slots_of_a_deleted_lane_come_back(bench: Bench) -> None:
    await limit_to(bench, 1)
    _, waiting = await add(bench, 2)
    await bench.claim()
    await bench.command("DEL", f"{{{bench.namespace}:q:{STREAM.name}}}:s:held")
    await bench.backend.promote([SOURCE], limit=10)
    assert [claim.id for claim in await bench.claim()] == [waiting]


async def test_a_message_deleted_by_hand_holds_no_line(bench: Bench) -> None:
    await limit_to(bench, 1)
    gone, kept = await add(bench, 2)
    prefix = f"{{{bench.namespace}:q:{STREAM.name}}}:"
    await bench.command("HDEL", f"{prefix}msg", gone)
    assert [claim.id for claim in await bench.claim()] == [kept]


async def test_a_line_deleted_by_hand_takes_no_slot_of_another(bench: Bench) -> None:
    await limit_to(bench, 1)
    await add(bench)
    [running] = await bench.claim()
    await add(bench, 1, BY_CUSTOMER)
    [waiting] = await add(bench)
    assert await bench.claim() == []
    prefix = f"{{{bench.namespace}:q:{STREAM.name}}}:"
    [line] = [key for key in await bench.command("KEYS", f"{prefix}line/*") if b"customer" in key]
    await bench.command("DEL", line)
    await bench.settle(DONE, running)
    assert [claim.id for claim in await bench.claim()] == [waiting]


async def test_a_key_whose_holder_was_deleted_by_hand_is_mended(bench: Bench) -> None:
    await limit_to(bench, 1)
    first, second = await add(bench, 2, None, key="a")
    prefix = f"{{{bench.namespace}:q:{STREAM.name}}}:"
    await bench.command("HDEL", f"{prefix}msg", first)
    await bench.command("HDEL", f"{prefix}ids", first)
    assert await bench.claim() == []
    await bench.backend.promote([SOURCE], limit=10)
    assert [claim.id for claim in await bench.claim()] == [second]


async def test_a_damaged_constraint_makes_a_dead_letter(bench: Bench) -> None:
    """Another program has written what is no constraint: it limits nothing, and the claim says so."""
    await limit_to(bench, 1)
    await add(bench)
    messages = f"{{{bench.namespace}:q:{STREAM.name}}}:msg"
    [id] = await add(bench)
    head, task, _, body = (await bench.command("HGET", messages, id)).split(b"\0", 3)
    await bench.command("HSET", messages, id, b"\0".join((head, task, b"[1, 2", body)))
    claims: list[Claim] = []
    while found := await bench.claim():
        claims += found
        for claim in found:
            outcome: Outcome = DONE
            if claim.unreadable:
                outcome = Dead(FRESH, DeadReason.UNDECODABLE, FAILURE)
            assert await bench.backend.settle([Settlement(claim, outcome)]) == [Verdict.KEPT]
    assert [bool(claim.unreadable) for claim in claims] == [False, True]
    assert (await bench.backend.get(STREAM, id)).status is JobStatus.DEAD
    assert await counted(bench) == (0, 0)
