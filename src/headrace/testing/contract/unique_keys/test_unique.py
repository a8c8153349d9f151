"""Unique keys: one message of a stream holds a key, and another message with that key is its duplicate."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import Stream, UniqueKey
from headrace.core.records.answers import Answer, Wanted
from headrace.core.records.record import JobStatus
from headrace.testing.contract.kit.stand import Stand

from .kinds import ELAPSED, FINISHED, STARTED, every_kind


@every_kind
async def test_a_second_message_with_the_key_is_a_duplicate_of_the_first(
    stand: Stand, unique: UniqueKey
) -> None:
    id = await stand.add(unique=unique)
    assert await stand.append(stand.message(unique=unique)) == [Answer(id, "duplicate")]
    assert (await stand.counts()).queued == 1


@every_kind
async def test_the_key_holds_within_a_batch(stand: Stand, unique: UniqueKey) -> None:
    first, second = stand.message(unique=unique), stand.message(unique=unique)
    assert await stand.append(first, second) == [Answer(first.id), Answer(first.id, "duplicate")]


@every_kind
async def test_the_key_holds_for_other_processes(stand: Stand, unique: UniqueKey) -> None:
    id = await stand.add(unique=unique)
    batch = stand.batch(stand.message(unique=unique), producer="another")
    assert await (await stand.other()).append(batch) == [Answer(id, "duplicate")]


@every_kind
async def test_a_key_belongs_to_its_stream(stand: Stand, unique: UniqueKey) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.add(unique=unique)
    await stand.add(unique=unique, source=elsewhere)


async def test_another_key_is_another_matter(stand: Stand) -> None:
    await stand.add(unique=UniqueKey("report:7"))
    await stand.add(unique=UniqueKey("report:8"))
    await stand.add()


async def test_a_duplicate_by_key_leaves_nothing_behind(stand: Stand) -> None:
    holder = await stand.running(unique=FINISHED)
    refused = stand.message(unique=FINISHED)
    await stand.append(refused)
    assert await stand.status(refused.id) is JobStatus.UNKNOWN
    await stand.settle_done(holder)
    assert await stand.append(refused) == [Answer(refused.id)]


@pytest.mark.whole("a limit holds for each part")
async def test_a_message_that_is_refused_because_it_is_full_does_not_take_its_key(stand: Stand) -> None:
    await stand.add()
    (answer,) = await stand.append(stand.message(unique=FINISHED), limit=1)
    assert answer.verdict == "full"
    await stand.add(unique=FINISHED)


async def test_a_key_that_is_held_is_told_even_when_it_is_full(stand: Stand) -> None:
    id = await stand.add(unique=FINISHED)
    assert await stand.append(stand.message(unique=FINISHED), limit=1) == [Answer(id, "duplicate")]


# --- looking ----------------------------------------------------------------------------------------------


@every_kind
async def test_the_holder_of_a_key_is_known_and_says_so(stand: Stand, unique: UniqueKey) -> None:
    id = await stand.add(unique=unique)
    other = await stand.other()
    assert await other.holders(stand.stream, [Wanted(key=unique.key)]) == [id]
    assert await other.holders(stand.stream, [Wanted(key="report:8")]) == [None]
    assert (await stand.look(id)).unique_key == "report:7"
    [listed] = await other.messages(stand.stream)
    assert listed.unique_key == "report:7"


async def test_a_key_is_looked_for_in_its_stream_alone(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.add(unique=FINISHED)
    assert await stand.backend.holders(elsewhere, [Wanted(key=FINISHED.key)]) == [None]
    assert await stand.backend.holders(Stream("queue", "nowhere"), [Wanted(key=FINISHED.key)]) == [None]


async def test_a_key_that_was_given_up_has_no_holder_but_is_remembered_while_the_message_lives(
    stand: Stand,
) -> None:
    finished = await stand.running(unique=FINISHED)
    assert await stand.backend.holders(stand.stream, [Wanted(key=FINISHED.key)]) == [finished.id]
    await stand.die(finished)
    assert await stand.backend.holders(stand.stream, [Wanted(key=FINISHED.key)]) == [None]
    assert (await stand.look(finished.id)).unique_key == FINISHED.key

    started = await stand.running(unique=STARTED)
    assert await stand.backend.holders(stand.stream, [Wanted(key=STARTED.key)]) == [None]
    assert (await stand.look(started.id)).unique_key == STARTED.key
    await stand.settle_done(started, value=b"42")

    elapsed = await stand.running(unique=ELAPSED)
    assert (await stand.look(elapsed.id)).unique_key == ELAPSED.key
    await stand.settle_done(elapsed, value=b"42")
    assert await stand.backend.holders(stand.stream, [Wanted(key=ELAPSED.key)]) == [elapsed.id]
    await stand.advance(61)
    assert await stand.backend.holders(stand.stream, [Wanted(key=ELAPSED.key)]) == [None]


async def test_a_message_without_a_key_says_so(stand: Stand) -> None:
    assert (await stand.look(await stand.add())).unique_key == ""
