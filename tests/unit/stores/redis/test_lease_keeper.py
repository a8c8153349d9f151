"""Leases on a cluster of which a node is away."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.records.answers import Renewal
from headrace.stores.redis.client.open_connections import OpenConnections
from headrace.stores.redis.entries import EntryToken
from headrace.stores.redis.server.faults import lost
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts
from headrace.stores.redis.upkeep import lease_keeper
from headrace.stores.redis.upkeep.lease_keeper import RedisLeaseKeeper

AWAY, THERE = Stream("queue", "away"), Stream("queue", "there")


class Nodes:
    """One of them does not answer; at the other all is lost."""

    is_cluster = True

    def __init__(self) -> None:
        self.life = OpenConnections()

    def begin(self) -> None:
        self.life.begin()

    def queue(self, stream: Stream) -> StreamScripts:
        return StreamScripts("headrace", stream, lambda: 0)

    async def run(self, call: ScriptCall) -> list[bytes]:
        if b":q:away}" in call.packed:
            raise lost("it does not answer")
        return [b"l"]


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch) -> RedisLeaseKeeper:
    monkeypatch.setattr(lease_keeper, "ITEMS", 1)
    nodes: Any = Nodes()
    return RedisLeaseKeeper(nodes)


def claims(stream: Stream, number: int) -> list[Claim]:
    token = EntryToken(4, b"1-1", "worker", b"greet")
    return [Claim(stream, str(each), b"", token, 0) for each in range(number)]


async def test_what_is_lost_elsewhere_is_told_however_much_is_held_at_a_node_that_is_away(
    leases: RedisLeaseKeeper,
) -> None:
    told = await leases.renew([*claims(AWAY, 3), *claims(THERE, 1)])
    assert told == [*3 * [Renewal.UNKNOWN], Renewal.LOST]


async def test_when_none_is_there_nothing_is_told(leases: RedisLeaseKeeper) -> None:
    with pytest.raises(BackendUnavailable):
        await leases.renew(claims(AWAY, 3))
