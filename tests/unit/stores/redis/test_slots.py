"""Who owns what on a cluster, as all who need to know ask it together."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.stores.redis.client.address import Address
from headrace.stores.redis.client.cluster_slots import ClusterSlots
from headrace.stores.redis.server.faults import lost


async def test_an_error_that_several_share_is_each_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each notes on it whether its own request was carried out, and tells that to its caller."""

    async def fail(slots: ClusterSlots) -> None:
        raise lost("nobody answers")

    monkeypatch.setattr(ClusterSlots, "_ask", fail)
    slots = ClusterSlots(Address())
    one, other = await asyncio.gather(slots.owner(1), slots.owner(2), return_exceptions=True)
    assert isinstance(one, BackendUnavailable)
    assert isinstance(other, BackendUnavailable)
    one.uncertain = True
    assert not other.uncertain
