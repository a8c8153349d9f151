"""From open to close: nothing is used after it, nor by a child that inherited it."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace import App
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message
from headrace.core.messages.outcome import DONE, Settlement, Verdict
from headrace.core.records.answers import Renewal
from headrace.core.records.record import WorkerInfo
from headrace.core.runtime.clock import SECOND
from headrace.stores import open_store
from headrace.testing.contract.kit.heartbeats import beat
from tests.integration.support.redis_bench import LONG, SOURCE, STREAM, opened
from tests.support.servers import Server
from tests.support.waiting import wait_until

Verb = Callable[[Any], Awaitable[Any]]

VERBS: dict[str, Verb] = {
    "declare_stream": lambda backend: backend.declare_stream(SOURCE, SECOND),
    "append": lambda backend: backend.append(batch()),
    "claim": lambda backend: backend.claim([SOURCE], consumer="w", limit=1, suspects=1, wait=0),
    "reclaim": lambda backend: backend.reclaim([SOURCE], limit=1),
    "promote": lambda backend: backend.promote([SOURCE], limit=1),
    "get": lambda backend: backend.get(STREAM, "id"),
    "ended": lambda backend: backend.wait_for_end(STREAM, "id", 1),
    "counts": lambda backend: backend.counts(STREAM),
    "beat": lambda backend: beat(backend, WorkerInfo("worker", "host", 1, 1, ("work",), 10)),
}


def batch(producer: str = "p") -> Batch:
    return Batch(STREAM, producer, 1, [Message(new_id(), "greet", b"")])


# --- after close -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
async def test_nothing_connects_again_after_close(redis_server: Server, verb: str) -> None:
    async with opened(redis_server.url) as bench:
        await bench.add()
    with pytest.raises(BackendUnavailable, match="is closed: open it again") as caught:
        await VERBS[verb](bench.backend)
    assert (caught.value.uncertain, caught.value.transient) == (False, False)
    await bench.backend.open()
    try:
        await VERBS[verb](bench.backend)
    finally:
        await bench.backend.close()


async def test_close_leaves_no_connection_behind(redis_server: Server) -> None:
    name = f"user-{new_id()}"
    redis_server.command("ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all")
    async with opened(redis_server.url.replace("://", f"://{name}:secret@")) as bench:
        await bench.add()
        waiting = asyncio.create_task(bench.claim(wait=LONG))
        await waiting
        assert clients(redis_server, name) == 3  # writes, claims, announcements
    await wait_until(lambda: clients(redis_server, name) == 0)
    redis_server.command("ACL", "DELUSER", name)


async def test_a_waiting_claim_ends_when_the_store_is_closed(redis_server: Server) -> None:
    async with opened(redis_server.url) as bench:
        waiting = asyncio.create_task(bench.claim(wait=LONG))
        await wait_until(lambda: bench.is_blocked())
    assert await waiting == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it was never closed
def test_a_store_whose_loop_is_gone_is_closed_and_opened_on_another(redis_server: Server) -> None:
    backend = open_store(redis_server.url, namespace=new_id())

    async def use() -> None:
        await backend.open()
        await backend.append(batch())
        await backend.claim([SOURCE], consumer="w", limit=1, suspects=1, wait=0.01)

    asyncio.run(use())  # and never closes it

    async def again() -> int:
        await backend.close()
        await backend.open()
        await backend.append(batch("q"))
        counts = await backend.counts(STREAM)
        await backend.close()
        return counts.queued + counts.running

    assert asyncio.run(again()) == 2
    gc.collect()


# --- fork ------------------------------------------------------------------------------------------------


def test_a_forked_child_opens_the_store_for_itself(redis_server: Server) -> None:
    loop = asyncio.new_event_loop()
    backend = open_store(redis_server.url, namespace=new_id())
    run = loop.run_until_complete
    run(backend.open())
    first = batch()
    run(backend.append(first))
    claims = run(backend.claim([SOURCE], consumer="w", limit=1, suspects=1, wait=0))
    leases = backend.lease_keeper()
    assert run(leases.renew(claims)) == [Renewal.KEPT]
    child = os.fork()
    if child == 0:
        os._exit(asyncio.run(_in_the_child(backend, leases, claims, first.messages[0].id)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # All four connections of the parent are as they were, and answer what they are asked.
    assert run(leases.renew(claims)) == [Renewal.KEPT]
    run(leases.close())
    run(backend.append(batch("parent")))
    assert run(backend.settle([Settlement(claims[0], DONE)])) == [Verdict.KEPT]
    assert len(run(backend.claim([SOURCE], consumer="w", limit=9, suspects=1, wait=5))) == 2
    heard: list[object] = []
    backend.listen(heard.append)
    run(backend.pause(STREAM, paused=True))
    run(wait_until(lambda: heard))
    run(backend.close())
    loop.close()


async def _in_the_child(backend: Any, leases: Any, claims: Any, first: str) -> int:
    """0: all is well. An assertion would run the parent's tests to their end here."""
    try:
        await backend.counts(STREAM)
    except BackendUnavailable as error:
        if "another process" not in str(error):
            return 1
    else:
        return 2
    backend.wake("w")
    await backend.close()
    await backend.open()
    if await backend.get(STREAM, first) is None:
        return 3
    if await leases.renew(claims) != [Renewal.KEPT]:
        return 4
    (answer,) = await backend.append(batch("child"))
    await backend.close()
    return 0 if answer.verdict == "accepted" else 5


def test_a_forked_child_uses_the_app_it_inherited(redis_server: Server) -> None:
    app = App(redis_server.url, namespace=new_id())

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    async def fork_amid_work() -> int:
        async with app.worker(grace=0):
            assert await (await add.enqueue(1, 2)).result(timeout=10) == 3
            child = os.fork()
            if child == 0:
                os._exit(_use_in_the_child(app))
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            code = os.waitstatus_to_exitcode(status)
            assert await (await add.enqueue(3, 4)).result(timeout=10) == 7
            return code

    async def run() -> int:
        async with app:
            return await fork_amid_work()

    assert asyncio.run(run()) == 0


def _use_in_the_child(app: App) -> int:
    """Its job is run by the parent's worker."""

    async def use() -> int:
        job = await app.enqueue(app.tasks["add"].call(5, 6))
        result = await job.result(timeout=10)
        await app.close()
        return 0 if result == 11 else 1

    return asyncio.run(use())


def clients(server: Server, user: str) -> int:
    answer = server.command("CLIENT", "LIST")
    assert isinstance(answer, bytes)
    return answer.decode().count(f" user={user} ")
