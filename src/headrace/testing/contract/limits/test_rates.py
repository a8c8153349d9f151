"""Limits on how many messages start in a span of time."""

from __future__ import annotations

import pytest

from headrace.core.messages.outcome import Done, Released, Settlement, Snoozed
from headrace.core.records.control import ControlMessage, DueNotice
from headrace.core.runtime.clock import SECOND
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand
from headrace.testing.waiting import wait_until

from .kit import add_all, declare, figures, limited, record_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("limiting")]


async def starts_now(stand: Stand, limit: int = 1000) -> int:
    """Claim what the rate allows, and end it."""
    await stand.promote()
    claims = await stand.claim(limit)
    await stand.backend.settle([Settlement(claim, Done()) for claim in claims])
    return len(claims)


async def test_starts_are_evenly_spaced(stand: Stand) -> None:
    await declare(stand, "mail", rate="10/s", burst=1)
    await add_all(stand, 30, limited("mail"))
    counts: list[int] = []
    for _ in range(20):
        counts.append(await starts_now(stand))
        await stand.advance(0.1)
    assert set(counts) == {1}


async def test_a_burst_may_start_at_once(stand: Stand) -> None:
    await declare(stand, "mail", rate="10/m", burst=5)
    await add_all(stand, 30, limited("mail"))
    assert await starts_now(stand) == 5
    assert await starts_now(stand) == 0
    await stand.advance(20)  # some time passes by itself, on a server
    assert await starts_now(stand) == 3


async def test_a_rate_is_never_exceeded_and_is_used(stand: Stand) -> None:
    """An hour at 10/m, looked at in uneven steps."""
    await declare(stand, "mail", rate="10/m", burst=10)
    await add_all(stand, 800, limited("mail"))
    starts: list[tuple[int, int]] = []
    begun_us = stand.now_us()
    for step in range(180):
        starts.append((stand.now_us(), await starts_now(stand)))
        await stand.advance(10.0 + 10.0 * (step % 3))
    minute = 60 * SECOND
    for at_us, _ in starts:
        assert sum(count for us, count in starts if at_us <= us < at_us + minute) <= 20
    minutes = (starts[-1][0] - begun_us) / minute
    assert minutes > 59
    assert sum(count for _, count in starts) >= 0.95 * 10 * minutes


async def test_the_store_says_when_the_next_may_start(stand: Stand) -> None:
    await declare(stand, "mail", rate="1/m")
    await add_all(stand, 2, limited("mail"))
    assert await starts_now(stand) == 1
    assert await starts_now(stand) == 0
    promoted = await stand.promote()
    assert promoted.next_in_us is not None
    assert 50 * SECOND < promoted.next_in_us <= 61 * SECOND
    await stand.advance(61)
    assert await starts_now(stand) == 1


async def test_a_retry_a_snooze_and_a_recovery_spend_a_token(stand: Stand) -> None:
    await declare(stand, "mail", rate="1/m", burst=3)
    await stand.add(constraints=limited("mail"))
    claim = await stand.claim_one()
    await stand.settle(claim, Snoozed(claim.state, 0))
    claim = await stand.claim_one()
    await stand.retry(claim, delay=0)
    claim = await stand.claim_one()
    await stand.settle(claim, Released(claim.state))
    assert await stand.claim() == []
    await stand.advance(61)
    await stand.promote()
    claim = await stand.claim_one()
    await stand.advance(LEASE + 1)
    await stand.reclaim()
    assert await stand.claim() == []


async def test_what_was_not_started_gives_its_token_back(stand: Stand) -> None:
    await declare(stand, "mail", rate="1/m", burst=1)
    await stand.add(constraints=limited("mail"))
    claim = await stand.claim_one()
    await stand.settle(claim, Released(claim.state, unstarted=True))
    assert len(await stand.claim()) == 1


async def test_each_key_has_tokens_of_its_own(stand: Stand) -> None:
    await declare(stand, "mail", rate="1/m", burst=1)
    for key in range(5):
        await add_all(stand, 2, limited(f"mail={key}"))
    assert await starts_now(stand) == 5
    assert await starts_now(stand) == 0
    await stand.advance(61)
    assert await starts_now(stand) == 5


async def test_a_rate_and_a_limit_of_running_hold_both(stand: Stand) -> None:
    await declare(stand, "mail", rate="10/s", burst=10, max_running=2)
    await add_all(stand, 10, limited("mail"))
    claims = await stand.claim()
    assert len(claims) == 2
    await stand.settle_done(claims[0])
    assert len(await stand.claim()) == 1
    assert (await record_of(stand, "mail")).running == 2


async def test_lines_that_wait_for_tokens_take_turns(stand: Stand) -> None:
    await declare(stand, "all", rate="10/s", burst=1)
    for key in range(4):
        await add_all(stand, 2, limited("all", f"customer={key}"))
    started = 0
    for _ in range(8):
        started += await starts_now(stand)
        await stand.advance(0.1)
    assert started == 8


async def test_a_clock_that_is_set_back_stops_no_rate(stand: Stand) -> None:
    await declare(stand, "mail", rate="6/m", burst=1)
    await add_all(stand, 3, limited("mail"))
    assert await starts_now(stand) == 1
    assert await starts_now(stand) == 0
    await stand.step(-3600)
    await stand.promote()
    await stand.advance(30)
    assert await starts_now(stand) == 1


async def test_a_faster_rate_is_announced_to_those_who_wait_for_the_slow_one(stand: Stand) -> None:
    await declare(stand, "mail", rate="1/h", burst=1)
    await add_all(stand, 2, limited("mail"))
    assert await starts_now(stand) == 1
    assert await stand.claim() == []
    heard: list[ControlMessage] = []
    stop = stand.backend.listen(heard.append)
    await stand.backend.set_limit("mail", figures("mail", rate="10/s", burst=1))
    assert await stand.claim() == []
    await wait_until(lambda: any(isinstance(message, DueNotice) for message in heard))
    stop()
    await stand.advance(0.2)
    assert await starts_now(stand) == 1


async def test_a_look_for_tokens_that_comes_late_forgets_no_run(stand: Stand) -> None:
    await declare(stand, "mail", rate="12/m", burst=1)
    await stand.add(constraints=limited("mail"))
    waiting = await stand.add(constraints=limited("mail"))
    first = await stand.claim_one()
    assert await stand.claim() == []
    await stand.backend.cancel(stand.stream, waiting, ttl_us=HOUR_US)
    await stand.advance(25)
    await stand.settle_done(first)
    await stand.add(constraints=limited("mail"))
    second = await stand.claim_one()
    await stand.promote()
    assert (await record_of(stand, "mail")).running == 1
    await stand.settle_done(second)
    assert (await record_of(stand, "mail")).running == 0
