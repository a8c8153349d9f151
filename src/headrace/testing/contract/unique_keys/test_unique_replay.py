"""Dead letters with unique keys: a replay takes the key again, or leaves the letter dead."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import UniqueKey
from headrace.core.records.answers import ReplayAnswer, Wanted
from headrace.core.records.record import JobStatus
from headrace.testing.contract.kit.stand import Stand

from .kinds import ELAPSED, FINISHED, STARTED, owner_of


async def test_a_replayed_message_takes_its_key_again(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.die(claim)
    assert await stand.backend.replay(stand.stream, [claim.id]) == [ReplayAnswer.REPLAYED]
    assert await owner_of(stand, FINISHED) == claim.id


async def test_a_message_whose_key_another_holds_by_now_stays_dead(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.die(claim)
    other = await stand.add(unique=FINISHED)
    assert await stand.backend.replay(stand.stream, [claim.id]) == [ReplayAnswer.DUPLICATE]
    assert await stand.status(claim.id) is JobStatus.DEAD
    assert await owner_of(stand, FINISHED) == other


async def test_a_message_that_stays_dead_is_answered_as_often_as_it_is_named(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.die(claim)
    await stand.add(unique=FINISHED)
    answers = await stand.backend.replay(stand.stream, [claim.id] * 2)
    assert answers == [ReplayAnswer.DUPLICATE] * 2


async def test_a_message_may_be_replayed_once_its_key_is_free_again(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.die(claim)
    await stand.settle_done(await stand.running(unique=FINISHED))
    assert await stand.backend.replay(stand.stream, [claim.id]) == [ReplayAnswer.REPLAYED]


async def test_of_dead_letters_with_one_key_the_first_is_replayed(stand: Stand) -> None:
    """They may be in different parts."""
    claims = []
    for _ in range(8):
        claims.append(await stand.running(unique=FINISHED))
        await stand.die(claims[-1])
    answers = await stand.backend.replay(stand.stream, [claim.id for claim in claims])
    assert answers == [ReplayAnswer.REPLAYED, *[ReplayAnswer.DUPLICATE] * 7]


async def test_a_key_that_is_held_since_a_split_keeps_a_letter_from_before_it_dead(stand: Stand) -> None:
    """The key selects another part now, and a replay looks only into the part of the letter."""
    claims = []
    for parts in (5, 7):
        claims.append(await stand.running(unique=FINISHED))
        await stand.die(claims[-1])
        await stand.split(parts)
    first, second = (claim.id for claim in claims)
    other = await stand.running(unique=FINISHED)
    assert await stand.backend.replay(stand.stream, [first]) == [ReplayAnswer.DUPLICATE]
    assert await stand.status(first) is JobStatus.DEAD
    await stand.settle_done(other)
    answers = await stand.backend.replay(stand.stream, [first, "unknown", second, first])
    assert sorted(answers) == sorted(
        [ReplayAnswer.REPLAYED, *[ReplayAnswer.GONE] * 2, ReplayAnswer.DUPLICATE]
    )
    assert answers.index(ReplayAnswer.REPLAYED) in (0, 2)
    assert await owner_of(stand, FINISHED) in (first, second)


@pytest.mark.parametrize("unique", [STARTED, ELAPSED])
async def test_a_letter_that_takes_no_key_again_is_replayed_over_a_split(
    stand: Stand, unique: UniqueKey
) -> None:
    claim = await stand.running(unique=unique)
    await stand.die(claim)
    await stand.split(5)
    await stand.advance(61)
    await stand.add(unique=unique)
    assert await stand.backend.replay(stand.stream, [claim.id]) == [ReplayAnswer.REPLAYED]


async def test_a_discarded_dead_letter_does_not_release_the_key_of_the_next_owner(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.die(claim)
    owner = await stand.add(unique=FINISHED)
    await stand.backend.discard(stand.stream, [claim.id])
    assert await owner_of(stand, FINISHED) == owner


@pytest.mark.parametrize("unique", [STARTED, ELAPSED], ids=lambda unique: unique.until)
async def test_a_replay_takes_no_key_that_is_not_the_messages_own_any_more(
    stand: Stand, unique: UniqueKey
) -> None:
    dead_one = await stand.running(unique=unique)
    await stand.die(dead_one)
    await stand.advance(61)
    holder = await stand.add(unique=unique)
    assert await stand.backend.replay(stand.stream, [dead_one.id]) == [ReplayAnswer.REPLAYED]
    assert await stand.backend.holders(stand.stream, [Wanted(key=unique.key)]) == [holder]
    claims = await stand.claim(2)
    await stand.settle_done(next(claim for claim in claims if claim.id == dead_one.id))
    elapses = unique.until == "elapsed"
    held = await stand.backend.holders(stand.stream, [Wanted(key=unique.key)])
    assert held == [holder if elapses else None]
