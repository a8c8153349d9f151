"""What a worker holds."""

from __future__ import annotations

import time

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH, State, Stream, TrailEntry
from headrace.engine.settling.held_claims import HeldClaims

ENTRY = TrailEntry(1, "crashed", "worker-1")
CRASHED = FRESH.crashed(ENTRY)


def claim(id: str = "id", state: State = FRESH) -> Claim:
    return Claim(Stream("queue", "work"), id, b"", 1, claimed_us=1_000_000, state=state)


def test_what_is_taken_is_held_until_it_is_dropped() -> None:
    holdings, one, other = HeldClaims(), claim(), claim()
    holdings.take([one, other])
    assert len(holdings) == 2
    holdings.drop(one)
    holdings.drop(one)
    assert len(holdings) == 1
    assert one not in holdings
    assert other in holdings


def test_two_hand_outs_of_one_job_are_two_claims() -> None:
    holdings, first, second = HeldClaims(), claim("same"), claim("same")
    holdings.take([first])
    assert second not in holdings


def test_suspects_are_known_by_their_age(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    holdings, old, young = (
        HeldClaims(),
        claim(state=CRASHED.crashed(ENTRY)),
        claim(state=CRASHED.crashed(ENTRY)),
    )
    holdings.take([old, claim(), claim(state=CRASHED)])
    now = 103.0
    holdings.take([young])
    assert holdings.suspects_within(4.0) == [old, young]
    assert holdings.suspects_within(3.0) == [young]
    holdings.drop(young)
    holdings.drop(young)
    assert holdings.suspects_within(4.0) == [old]


def test_only_claims_of_an_age_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    holdings, old, young = HeldClaims(), claim(), claim()
    holdings.take([old])
    now = 103.0
    holdings.take([young])
    assert holdings.older_than(3.0) == [old]
    assert holdings.older_than(0.0) == [old, young]


def test_the_stores_clock_is_reckoned_from_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    holdings, held = HeldClaims(), claim()
    holdings.take([held])
    now = 102.5
    assert holdings.age(held) == 2.5
    assert holdings.store_clock_us(held) == 3_500_000
    assert holdings.age(claim()) == 0.0
