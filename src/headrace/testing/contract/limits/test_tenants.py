"""Tenants of a queue take turns."""

from __future__ import annotations

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import HIGH
from headrace.core.messages.outcome import Done, Settlement
from headrace.testing.contract.kit.stand import Stand

from .kit import add_all, declare, limited, of_tenant

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("limiting"),
    pytest.mark.whole("tenants take turns within a part"),
]


def tenants(claims: list[Claim]) -> list[str]:
    return [claim.constraints.tenant for claim in claims if claim.constraints is not None]


async def test_tenants_take_turns(stand: Stand) -> None:
    await add_all(stand, 6, of_tenant("a"))
    await add_all(stand, 2, of_tenant("b"))
    await add_all(stand, 1, of_tenant("c"))
    order: list[str] = []
    while claims := await stand.claim(1):
        order += tenants(claims)
    assert order[:3] == ["a", "b", "c"]
    assert order[3:5] == ["a", "b"]
    assert order[5:] == ["a"] * 4


async def test_one_claim_serves_all_tenants(stand: Stand) -> None:
    for tenant in "abcde":
        await add_all(stand, 20, of_tenant(tenant))
    assert sorted(tenants(await stand.claim(10))) == sorted("abcde" * 2)


async def test_a_new_tenant_does_not_wait_for_the_backlog_of_another(stand: Stand) -> None:
    await add_all(stand, 500, of_tenant("large"))
    await stand.claim(3)
    await add_all(stand, 1, of_tenant("small"))
    assert "small" in tenants(await stand.claim(2))


async def test_a_tenant_with_many_keys_has_one_turn(stand: Stand) -> None:
    for key in range(10):
        await add_all(stand, 1, limited(f"customer={key}", tenant="a"))
    await add_all(stand, 5, of_tenant("b"))
    assert sorted(tenants(await stand.claim(6))) == sorted("ab" * 3)


async def test_the_first_of_a_tenant_is_its_first_out(stand: Stand) -> None:
    ids = await add_all(stand, 5, of_tenant("a"))
    assert [(await stand.claim_one()).id for _ in ids] == ids


async def test_priority_comes_before_turns(stand: Stand) -> None:
    await add_all(stand, 3, of_tenant("a"))
    (urgent,) = await add_all(stand, 1, of_tenant("b"), priority=HIGH)
    assert (await stand.claim_one()).id == urgent


async def test_a_tenant_whose_limit_is_full_loses_no_turn_of_others(stand: Stand) -> None:
    await declare(stand, "customer", max_running=1)
    await add_all(stand, 5, limited("customer=a", tenant="a"))
    await add_all(stand, 3, of_tenant("b"))
    claims = await stand.claim(10)
    assert sorted(tenants(claims)) == ["a", "b", "b", "b"]
    await stand.backend.settle([Settlement(claim, Done()) for claim in claims])
    assert tenants(await stand.claim(10)) == ["a"]
