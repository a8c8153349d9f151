"""Connections that break: before a statement arrives, or before its answer does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream, group_stream
from headrace.core.messages.outcome import DeadReason, Done, Failure, Kept, Settlement, Verdict
from headrace.core.messages.outgoing import Outgoing
from headrace.core.outbox.outbox import Refusal
from headrace.core.records.answers import Answer, DeadFilter, Wanted
from headrace.core.records.record import JobStatus, WorkerInfo
from headrace.core.records.traffic import TrafficCount
from headrace.core.schedules.schedule_record import establish
from headrace.core.topics.topic import BEGINNING, TopicRules
from headrace.stores.postgres.store import PostgresStore
from tests.integration.support.postgres_steps import (
    QUEUE,
    batch,
    claimed,
    opened,
    value_of,
)
from tests.support.postgres_proxy import BreakingProxy
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("unique", "words"), [("", b"append_plain"), ("nightly", b"COMMIT\0")])
async def test_an_append_whose_answer_is_lost_is_uncertain_and_stored_once(
    server: PostgresServer, unique: str, words: bytes
) -> None:
    async with BreakingProxy(server) as proxy, opened(proxy.url) as store:
        sent = batch("job", unique=unique)
        proxy.lose_answer_of(words)
        with pytest.raises(BackendUnavailable) as caught:
            await store.append(sent)
        assert (caught.value.uncertain, caught.value.transient) == (True, True)
        assert await store.append(sent) == [Answer("job")]
        assert (await store.counts(QUEUE)).queued == 1
        assert await claimed(store) == ["job"]


@pytest.mark.parametrize("unique", ["", "nightly"])
async def test_an_append_that_breaks_before_it_is_sent_stores_nothing(
    server: PostgresServer, unique: str
) -> None:
    async with BreakingProxy(server) as proxy, opened(proxy.url) as store:
        proxy.refuse(b"append_plain" if not unique else b"INSERT INTO headrace.messages")
        with pytest.raises(BackendUnavailable) as caught:
            await store.append(batch("job", unique=unique))
        assert caught.value.uncertain is not bool(unique)  # within a transaction the store knows better
        assert (await store.counts(QUEUE)).queued == 0
        assert await store.append(batch("job", unique=unique)) == [Answer("job")]


async def test_a_claim_whose_answer_is_lost_is_reclaimed(server: PostgresServer) -> None:
    async with BreakingProxy(server) as proxy, opened(proxy.url) as store:
        await store.declare_stream(QUEUE, 1000)
        await store.append(batch("job"))
        proxy.lose_answer_of(b"headrace.claim")
        with pytest.raises(BackendUnavailable):
            await claimed(store)
        assert (await store.counts(QUEUE)).running == 1
        recovered: list[str] = []
        async with asyncio.timeout(20):
            while not recovered:
                answer = await store.reclaim([QUEUE], limit=10)
                recovered = [each.id for each in answer.recovered]
        assert recovered == ["job"]
        assert await claimed(store) == ["job"]


async def test_a_settlement_whose_answer_is_lost_may_be_sent_again(server: PostgresServer) -> None:
    async with BreakingProxy(server) as proxy, opened(proxy.url) as store:
        await store.append(batch("job"))
        [claim] = await store.claim([QUEUE], consumer="worker", limit=1, suspects=1, wait=0)
        done = Settlement(claim, Done(Kept(b"42", 3_600_000_000)))
        proxy.lose_answer_of(b"settle_done")
        with pytest.raises(BackendUnavailable) as caught:
            await store.settle([done])
        assert caught.value.uncertain
        assert await store.settle([done]) == [Verdict.GONE]
        record = await store.get(QUEUE, "job")
        assert record is not None
        assert (record.status, record.result) == (JobStatus.SUCCEEDED, b"42")


GROUP = group_stream("orders", "billing")
TOPIC = Stream("topic", "orders")
WORKER = WorkerInfo("worker", "host", 42, started_us=1, queues=("work",), concurrency=10)

#: Every verb that talks to the server and may be repeated.
VERBS: dict[str, Callable[[PostgresStore], Awaitable[object]]] = {
    "declare_stream": lambda store: store.declare_stream(QUEUE, 30_000_000),
    "append": lambda store: store.append(batch("job")),
    "append unique": lambda store: store.append(batch("other", unique="nightly")),
    "publish": lambda store: store.append(Batch(TOPIC, "producer", 1, [Message("event", "event", b"")])),
    "claim": lambda store: claimed(store, limit=1),
    "claim group": lambda store: store.claim([GROUP], consumer="worker", limit=1, suspects=1, wait=0),
    "report_progress": lambda store: store.report_progress([]),
    "reclaim": lambda store: store.reclaim([QUEUE], limit=10),
    "promote": lambda store: store.promote([QUEUE], limit=10),
    "prune": lambda store: store.prune(limit=10),
    "heartbeat": lambda store: store.heartbeat(WORKER, {"worker": [QUEUE]}),
    "count_traffic": lambda store: store.count_traffic([TrafficCount(QUEUE, done=1)]),
    "traffic": lambda store: store.traffic(5),
    "schedules": lambda store: store.schedules([QUEUE]),
    "swap_schedules": lambda store: store.swap_schedules([establish(QUEUE, "nightly")]),
    "get": lambda store: store.get(QUEUE, "job"),
    "wait_for_end": lambda store: store.wait_for_end(QUEUE, "nothing", 0.05),
    "cancel": lambda store: store.cancel(QUEUE, "job", ttl_us=1000),
    "streams": lambda store: store.streams(),
    "counts": lambda store: store.counts(QUEUE),
    "messages": lambda store: store.messages(QUEUE),
    "holders": lambda store: store.holders(QUEUE, [Wanted("job")]),
    "workers": lambda store: store.workers(),
    "pause": lambda store: store.pause(QUEUE, paused=False),
    "purge": lambda store: store.purge(QUEUE, ttl_us=1000, limit=10),
    "dead_letters": lambda store: store.dead_letters(QUEUE, only=DeadFilter()),
    "replay": lambda store: store.replay(QUEUE, ["job"]),
    "discard": lambda store: store.discard(QUEUE, ["job"]),
    "run_now": lambda store: store.run_now(QUEUE, "job"),
    "rewrite": lambda store: store.rewrite(QUEUE, "job", b""),
    "declare_topic": lambda store: store.declare_topic(TOPIC, TopicRules()),
    "join": lambda store: store.join(GROUP, BEGINNING),
    "read": lambda store: store.read(TOPIC, BEGINNING, consumer="worker", limit=10, wait=0),
    "keep_topics": lambda store: store.keep_topics([GROUP], limit=10),
    "topics": lambda store: store.topics(),
    "reset": lambda store: store.reset(GROUP, BEGINNING),
    "remove_stream": lambda store: store.remove_stream(GROUP),
}


async def forward(store: PostgresStore) -> None:
    """Settle a message that forwards another one, and relay that."""
    await store.append(Batch(QUEUE, new_id(), 1, [Message(new_id(), "greet", b"")]))
    claims = await store.claim([QUEUE], consumer="worker", limit=1, suspects=1, wait=0)
    outgoing = (Outgoing(Stream("queue", "other"), Message(new_id(), "greet", b"")),)
    await store.settle([Settlement(claim, Done(), outgoing) for claim in claims])
    for taken in await store.take_outgoing([QUEUE], relay="relay", limit=10, hold_us=1):
        await store.hand_on(taken)


async def bury(store: PostgresStore) -> None:
    failure = Failure("refused", "the queue is full")
    await store.bury(QUEUE, [Refusal(Message(new_id(), "greet", b""), DeadReason.REFUSED, failure)])


VERBS |= {"forward": forward, "bury": bury, "outboxes": lambda store: store.outboxes()}


@pytest.mark.more
@pytest.mark.parametrize("fault", ["refuse", "lose_answer_of"])
async def test_a_connection_that_breaks_anywhere_in_a_verb_is_an_error_that_may_pass(
    server: PostgresServer, fault: str
) -> None:
    async with BreakingProxy(server) as proxy, opened(proxy.url) as store:
        for name, verb in VERBS.items():
            for passing in count():
                await store._use()._notifier.flush()
                broken = proxy.broken
                getattr(proxy, fault)(b"", passing=passing)  # a later piece of a client's data each time
                raised = await error_of(verb, store)
                if proxy.broken == broken:
                    break  # the verb sends no more than this
                assert raised is None or raised.transient, name
                await verb(store)
            proxy.forgive()
        assert await value_of(server, COUNTED_WRONG) == 0


async def error_of(
    verb: Callable[[PostgresStore], Awaitable[object]], store: PostgresStore
) -> BackendUnavailable | None:
    try:
        await verb(store)
        await store._use()._notifier.flush()
    except BackendUnavailable as error:
        return error
    return None


#: Streams whose counts are not what their messages say.
COUNTED_WRONG = """
SELECT count(*) FROM (
    SELECT stream, sum(queued + running + scheduled + retrying + dead + parked) AS counted
    FROM headrace.counts GROUP BY stream) AS sums
WHERE counted <> (SELECT count(*) FROM headrace.messages
    WHERE messages.stream = sums.stream AND place <= 10)
"""
