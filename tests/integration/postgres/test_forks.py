"""A process that has the store open is forked: the child leaves the sessions of its parent alone."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import Any

import psycopg

from headrace import App
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.answers import Renewal
from headrace.stores import open_store
from headrace.testing.waiting import wait_until
from tests.support.postgres_server import PostgresServer

STREAM = Stream("queue", "work")


def test_the_sessions_of_the_parent_stay_open(server: PostgresServer) -> None:
    loop = asyncio.new_event_loop()
    name = new_id()
    backend: Any = open_store(f"{server.url}?application_name={name}", namespace=name)
    run = loop.run_until_complete
    run(backend.open())
    run(append(backend, "parent", 1))
    claims = run(backend.claim([STREAM], consumer="w", limit=1, suspects=1, wait=0))
    leases = backend.lease_keeper()
    assert run(leases.renew(claims)) == [Renewal.KEPT]
    heard: list[object] = []
    run(listen(backend, heard))
    before = sessions(server, name)
    child = os.fork()
    if child == 0:
        os._exit(asyncio.run(_in_the_child(backend, leases)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run(leases.renew(claims)) == [Renewal.KEPT]
    run(append(backend, "parent", 2))
    run(backend.pause(STREAM, paused=True))
    run(wait_until(lambda: heard, timeout=30))
    after = sessions(server, name)
    run(leases.close())
    run(backend.close())
    loop.close()
    assert before <= after  # the parent may have opened another one meanwhile


async def _in_the_child(backend: Any, leases: Any) -> int:
    """0: all is well. An assertion would run the parent's tests to their end here."""
    await leases.close()
    await backend.open()
    await append(backend, "child", 1)
    await backend.close()
    del backend, leases
    gc.collect()
    return 0


def test_a_worker_goes_on_when_a_handler_forks(server: PostgresServer) -> None:
    name = new_id()
    app = App(f"{server.url}?application_name={name}", namespace=name)

    @app.task(name="fork")
    async def fork() -> int:
        child = os.fork()
        if child == 0:
            app.tasks["double"].sync.enqueue(1)
            app.sync.close()
            gc.collect()
            os._exit(0)
        return os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1])

    @app.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    async def work() -> None:
        async with app, app.worker():
            before = sessions(server, name)
            assert await (await fork.enqueue()).result(timeout=30) == 0
            assert await (await double.enqueue(2)).result(timeout=30) == 4
            assert before <= sessions(server, name)

    asyncio.run(work())


async def listen(backend: Any, heard: list[object]) -> None:
    backend.listen(heard.append)


async def append(backend: Any, producer: str, number: int) -> None:
    await backend.append(Batch(STREAM, producer, number, [Message(new_id(), "greet", b"")]))


def sessions(server: PostgresServer, name: str) -> set[int]:
    """The numbers of the server's processes for a client."""
    ask = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
    with psycopg.connect(server.url) as connection:
        return {pid for (pid,) in connection.execute(ask, [name]).fetchall()}
