"""Connections that lead nowhere are noticed, and those that are gone are made again."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.records.answers import Renewal
from headrace.core.records.control import ControlMessage, PauseNotice
from headrace.stores.redis.client import connection
from headrace.stores.redis.client.address import Address
from headrace.stores.redis.verbs import announcements
from tests.integration.support.lossy_proxy import Proxy
from tests.integration.support.redis_bench import LONG, STREAM, Bench, opened
from tests.support.servers import HOST, Fleet, Server
from tests.support.waiting import wait_until

#: Seconds within which a dead connection must be noticed.
NOTICED = 10.0


@pytest.fixture
def server(servers: Fleet) -> Server:
    return servers.get("redis-7.0")


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy) -> AsyncIterator[Bench]:
    async with opened(proxy.url) as bench:
        yield bench


async def seconds_until_refused(action: Awaitable[object]) -> float:
    since = time.monotonic()
    with pytest.raises(BackendUnavailable):
        await action
    return time.monotonic() - since


@pytest.mark.more
async def test_every_kind_of_connection_notices_a_black_hole(
    far: Bench, proxy: Proxy, server: Server
) -> None:
    heard: list[ControlMessage] = []
    far.backend.listen(heard.append)
    await far.add()
    held = await far.claim()
    leases = far.backend.lease_keeper()
    await leases.renew(held)
    waiting = asyncio.create_task(far.claim(wait=LONG))
    await wait_until(lambda: far.is_blocked(), message="the claim blocks")
    subscription = far.backend._announcements._link.wire
    proxy.hold_standing()
    renewal = leases.renew(held)
    times = await asyncio.gather(
        seconds_until_refused(waiting),
        seconds_until_refused(far.backend.counts(STREAM)),
        seconds_until_refused(renewal),
        asyncio.wait_for(subscription.ended(), NOTICED),
    )
    assert max(times[:3]) <= NOTICED
    await leases.close()

    async def is_heard() -> bool:
        async with opened(server.url, far.namespace) as near:
            await near.backend.pause(STREAM, paused=True)
        return PauseNotice(STREAM, True) in heard

    await wait_until(is_heard, message="orders are heard again")
    assert (await far.backend.counts(STREAM)).running == 1


async def test_what_is_announced_while_a_sign_of_life_is_asked_for_is_heard(
    far: Bench, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "PULSE", 0.0)  # one after the other
    await far.backend.close()
    await far.backend.open()
    heard: list[ControlMessage] = []
    far.backend.listen(heard.append)
    async with opened(server.url, far.namespace) as near:
        for number in range(200):
            await near.backend.pause(STREAM, paused=number % 2 == 0)
    await wait_until(lambda: len(heard) == 200)


async def test_all_who_wait_for_a_connection_share_one_attempt(far: Bench, proxy: Proxy) -> None:
    link = far.backend._store.link  # other links of the store, as the subscription's, try on their own
    proxy.cut()
    await wait_until(lambda: link.wire is None)
    before = link._failures
    times = await asyncio.gather(*(seconds_until_refused(far.backend.counts(STREAM)) for _ in range(100)))
    assert link._failures == before + 1
    assert max(times) < 10  # one after the other they would take a minute
    proxy.mend()
    assert (await far.again(lambda: far.backend.counts(STREAM))).queued == 0


async def test_after_thousands_of_attempts_the_next_one_is_made(far: Bench, proxy: Proxy) -> None:
    link = far.backend._store.link
    proxy.cut()
    await wait_until(lambda: link.wire is None)
    link._failures = 5000  # an outage of an hour
    proxy.mend()
    assert (await far.backend.counts(STREAM)).queued == 0


async def test_whoever_waits_for_a_server_that_hangs_is_led_to_its_successor(
    far: Bench, proxy: Proxy, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when sentinels announce it while a connection to the old one is being made."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT", 3600.0)
    store = far.backend._store
    successor: Address = store.address.at((HOST, server.port))
    addresses: Iterator[Address] = iter([store.address, successor])

    class Sentinels:
        async def find(self) -> Address:
            return next(addresses)

        def doubt(self) -> None: ...

    link = store.new_link()
    link._finder = Sentinels()
    standing = proxy.standing
    proxy.hold()
    waiting = asyncio.create_task(link.connected())
    await wait_until(lambda: proxy.standing > standing)
    store._move((successor.host, successor.port))
    wire = await asyncio.wait_for(waiting, 20)
    assert wire.address == successor
    link.drop()


class At:
    """Finds the server at one address, whatever is asked."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def find(self) -> Address:
        return self._address

    def doubt(self) -> None: ...


async def test_leases_are_renewed_at_the_successor_of_a_server_that_still_answers(
    far: Bench, server: Server, servers: Fleet
) -> None:
    """As after a split, when the old one does not know that it was replaced."""
    successor = servers.get("valkey-9.1")
    await far.add()
    held = await far.claim()
    leases = far.backend.lease_keeper()
    store = leases._store
    assert await leases.renew(held) == [Renewal.KEPT]
    place = (HOST, successor.port)
    store.link._finder = At(store.address.at(place))
    store._move(place)
    assert await leases.renew(held) == [Renewal.LOST]  # that one never had it
    store._move(place)  # another sentinel says so, too
    standing = store.link.wire
    assert await leases.renew(held) == [Renewal.LOST]
    assert store.link.wire is standing
    await leases.close()


async def test_close_does_not_wait_for_an_attempt(
    far: Bench, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT", 3600.0)
    proxy.cut()
    await wait_until(lambda: not proxy.standing)
    await seconds_until_refused(far.backend.counts(STREAM))  # now the end is noticed
    proxy.hold()
    proxy.mend()
    asked = asyncio.create_task(far.backend.counts(STREAM))
    await wait_until(lambda: proxy.standing, message="an attempt is under way")
    await asyncio.wait_for(far.backend.close(), 20)
    with pytest.raises(BackendUnavailable, match="closed"):
        await asked


async def test_a_host_name_is_resolved_while_the_default_executor_is_taken(server: Server) -> None:
    gate = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    waiting = loop.run_in_executor(None, gate.wait, 60)
    try:
        async with asyncio.timeout(10), opened(f"redis://localhost:{server.port}") as bench:
            await bench.backend.streams()
    finally:
        gate.set()
        await waiting
