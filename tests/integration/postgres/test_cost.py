"""What the steps of the hot path read."""

from __future__ import annotations

from functools import partial

import pytest

from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Done, Kept, Released, Settlement, Verdict
from headrace.stores.postgres.rows.outbox_table import OF_USERS, TakenBatch
from headrace.stores.postgres.session.connection import PREPARE_AFTER
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import message_statements, record_statements
from headrace.stores.postgres.verbs.append import append
from headrace.stores.postgres.verbs.claim import claims_of, values_of
from headrace.stores.postgres.verbs.settle import done_values, report, settle
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sql.settling import token_of
from tests.integration.support.postgres_steps import QUEUE, batch, execute, new_name, opened
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


READ_ROWS = """
SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables
WHERE relid = 'headrace.messages'::regclass
"""

FILL = """
INSERT INTO headrace.messages (stream, id, task, place, at_us, since_us, lane, priority, body)
SELECT $1, 'job-' || number, 'greet', 5, number, number, 5, 1, 'hello'
FROM generate_series(1, $2::bigint) AS number
"""


@pytest.mark.parametrize("limit", [1, 100])
async def test_a_claim_reads_as_many_rows_with_many_waiting_as_with_few(
    server: PostgresServer, limit: int
) -> None:
    async def claim(transaction: PostgresTransaction) -> tuple[int, int, int]:
        query = ClaimQuery([QUEUE], "worker", limit, 1, turn=1)
        values = values_of(transaction.namespace, query, 0)
        claims = await transaction.rows(message_statements.CLAIM, values)
        [(scanned, fetched)] = await transaction.rows(READ_ROWS)
        return len(claims), scanned, fetched

    costs = []
    for waiting in (1000, 50_000):
        async with opened(server.url) as store:
            await store._write(partial(fill, count=waiting))
            costs.append(await store._write(claim))
            await store._write(partial(remove_all, stream=QUEUE))
    few, many = costs
    assert few[:2] == many[:2] == (limit, 0)
    assert many[2] <= 1.1 * limit + 1  # each once, to lock it; vacuum may just have moved a row or two


@pytest.mark.parametrize("vacuumed", [False, True])
async def test_steps_that_find_a_message_by_its_id_read_no_others_after_they_were_planned_on_an_empty_table(
    server: PostgresServer, vacuumed: bool
) -> None:
    schema = new_name("cost")
    async with opened(f"{server.url}?schema={schema}") as store:
        for number in range(1, PREPARE_AFTER + 1):
            await store._write(partial(one_of_each, number=number))
        if vacuumed:  # the server then knows that the table is empty, and plans again
            await execute(server, f"VACUUM {schema}.messages")
            await store._write(partial(one_of_each, number=PREPARE_AFTER + 1))
        await store._write(partial(fill, count=50_000))
        scanned, fetched = await store._write(partial(one_of_each, number=PREPARE_AFTER + 2))
    assert scanned == 0
    assert fetched < 100  # each step reads its message a few times


FILL_OUTBOX = """
INSERT INTO headrace.headrace_outbox (namespace, content)
SELECT $1, 'hello' FROM generate_series(1, $2::bigint)
"""


async def test_a_relay_reads_its_batch_and_not_all_that_waits(server: PostgresServer) -> None:
    async def relay(transaction: PostgresTransaction) -> tuple[int, int]:
        namespace = transaction.namespace
        await transaction.change(FILL_OUTBOX, (namespace, 20_000))
        before = await transaction.rows(READ_ROWS.replace("messages", "headrace_outbox"))
        batch = await OF_USERS.take(transaction, namespace, None, TakenBatch("relay", 100, 1000, 1000))
        assert batch is not None
        await OF_USERS.hand_on(transaction, namespace, batch, frozenset())
        after = await transaction.rows(READ_ROWS.replace("messages", "headrace_outbox"))
        return len(batch.entries), sum(after[0]) - sum(before[0])

    async with opened(server.url) as store:
        taken, fetched = await store._write(relay)
    assert taken == 100
    assert fetched < 10 * taken


async def one_of_each(transaction: PostgresTransaction, number: int) -> tuple[int, int]:
    """Takes the first message through its steps; how many rows they have read."""
    await append(transaction, batch(f"first-{number}", f"second-{number}", number=number))
    held = await claim_one(transaction)
    token = token_of(held)
    name = (transaction.namespace, QUEUE.kind, QUEUE.name, held.id)
    await transaction.rows(message_statements.AWAIT, name)
    await transaction.rows(record_statements.READ_RECORD, name)
    await transaction.rows(
        message_statements.RENEW, ([token.stream], [held.id], [token.claim], transaction.now_us)
    )
    await report(transaction, [Report(held, 0.5, "half")])
    assert await settle(transaction, [Settlement(held, Released())]) == [Verdict.KEPT]
    for done in (Done(), Done(Kept(None, 60_000_000))):
        values = done_values([Settlement(await claim_one(transaction), done)], 0, "off")
        [(_, settled, _)] = await transaction.rows(message_statements.SETTLE_DONE, values)
        assert settled == [1]
    [(scanned, fetched)] = await transaction.rows(READ_ROWS)
    return scanned, fetched


async def claim_one(transaction: PostgresTransaction) -> Claim:
    query = ClaimQuery([QUEUE], "worker", 1, 1, turn=1)
    values = values_of(transaction.namespace, query, 0)
    [claim] = claims_of(await transaction.rows(message_statements.CLAIM, values), query, values)
    return claim


async def fill(transaction: PostgresTransaction, count: int) -> None:
    await transaction.change(FILL, (await transaction.stream(QUEUE), count))


async def remove_all(transaction: PostgresTransaction, stream: Stream) -> None:
    number = await transaction.find(stream)
    await transaction.change("DELETE FROM headrace.messages WHERE stream = $1", (number,))
