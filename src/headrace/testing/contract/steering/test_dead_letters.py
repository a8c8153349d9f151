"""Dead letters: they stay until someone discards them, and run again when someone replays them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.core.messages.message import FRESH, HIGH, Stream
from headrace.core.messages.outcome import DeadReason, Verdict
from headrace.core.records.answers import DeadFilter, ReplayAnswer
from headrace.core.records.record import DeadLetter, JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.testing.contract.kit.stand import FAILURE, LEASE, Stand, dead, kept, queue_and_group

ANY = DeadFilter()


async def test_a_dead_letter_tells_what_happened(stand: Stand) -> None:
    await stand.add("doomed", task="mail.send", body=b"to whom")
    await stand.die(await stand.claim_one(), DeadReason.UNRECOVERABLE)
    (letter,) = await stand.backend.dead_letters(stand.stream, only=ANY)
    assert (letter.id, letter.task, letter.payload) == ("doomed", "mail.send", b"to whom")
    assert letter.reason == "unrecoverable"
    assert (letter.error_type, letter.error, letter.traceback) == (
        FAILURE.error_type,
        FAILURE.error,
        FAILURE.traceback,
    )
    assert (letter.queue, letter.topic, letter.group) == ("work", None, None)


async def test_a_dead_letter_tells_when_it_died(stand: Stand) -> None:
    await stand.advance(3600)
    await _one_dead(stand)
    (letter,) = await stand.backend.dead_letters(stand.stream, only=ANY)
    now = datetime.fromtimestamp(stand.now_us() / SECOND, UTC)
    assert abs(letter.died_at - now) < timedelta(seconds=5)


async def test_a_dead_letter_counts_the_runs_that_failed(stand: Stand) -> None:
    claim = await stand.running()
    await stand.retry(claim, delay=0)
    await stand.die(await stand.claim_one(claim.id))
    (letter,) = await stand.backend.dead_letters(stand.stream, only=ANY)
    assert letter.attempts == 2


async def test_a_dead_letter_counts_the_runs_that_crashed(stand: Stand) -> None:
    id = await stand.add()
    for _ in range(3):
        await stand.lose(await stand.claim_one(id))
    (letter,) = await stand.backend.dead_letters(stand.stream, only=ANY)
    assert (letter.attempts, letter.reason) == (3, "crashed")
    assert letter.error_type
    assert letter.error


@pytest.mark.parametrize("reason", list(DeadReason))
async def test_every_reason_is_kept(stand: Stand, reason: DeadReason) -> None:
    await stand.die(await stand.running(), reason)
    (letter,) = await stand.backend.dead_letters(stand.stream, only=ANY)
    assert letter.reason == reason


async def test_where_no_message_died_there_are_no_dead_letters(stand: Stand) -> None:
    await stand.add()
    page = await stand.backend.dead_letters(stand.stream, only=ANY)
    assert (page.items, page.cursor) == ((), None)
    nowhere = await stand.backend.dead_letters(Stream("queue", "nowhere"), only=ANY)
    assert nowhere.items == ()


async def test_the_latest_dead_letter_comes_first(stand: Stand) -> None:
    ids = []
    for _ in range(3):
        ids.append(await _one_dead(stand))
        await stand.advance(1)
    assert await _dead_ids(stand) == ids[::-1]


async def test_dead_letters_of_other_streams_are_not_listed(stand: Stand) -> None:
    await _one_dead(stand)
    await stand.queue("elsewhere")
    assert not await stand.backend.dead_letters(Stream("queue", "elsewhere"), only=ANY)


async def test_dead_letters_are_listed_page_by_page(stand: Stand) -> None:
    ids = []
    for _ in range(7):
        ids.append(await _one_dead(stand))
        await stand.advance(1)
    listed: list[DeadLetter] = []
    cursor = None
    for _ in range(10):
        page = await stand.backend.dead_letters(stand.stream, only=ANY, cursor=cursor, limit=3)
        assert len(page) <= 3
        listed += page
        cursor = page.cursor
        if cursor is None:
            break
    assert [letter.id for letter in listed] == ids[::-1]


async def test_a_page_stays_in_place_while_letters_come_and_go(stand: Stand) -> None:
    ids = []
    for _ in range(6):
        ids.append(await _one_dead(stand))
        await stand.advance(1)
    page = await stand.backend.dead_letters(stand.stream, only=ANY, limit=3)
    await stand.backend.discard(stand.stream, [ids[5], ids[3]])
    await _one_dead(stand)
    rest = await stand.backend.dead_letters(stand.stream, only=ANY, cursor=page.cursor, limit=3)
    assert [letter.id for letter in rest] == [ids[2], ids[1], ids[0]]


async def test_dead_letters_are_found_by_task(stand: Stand) -> None:
    for task in ("mail.send", "mail.sort", "mail.send"):
        await stand.add(task=task)
        await stand.die(await stand.claim_one())
    assert len(await _dead_ids(stand, DeadFilter(task="mail.send"))) == 2
    assert len(await _dead_ids(stand, DeadFilter(task="mail"))) == 0


async def test_dead_letters_are_found_by_reason(stand: Stand) -> None:
    await stand.die(await stand.running(), DeadReason.INVALID)
    await stand.die(await stand.running(), DeadReason.EXHAUSTED)
    assert len(await _dead_ids(stand, DeadFilter(reason=DeadReason.INVALID))) == 1
    assert len(await _dead_ids(stand, DeadFilter(task="greet", reason=DeadReason.CRASHED))) == 0


async def test_dead_letters_are_kept_for_good(stand: Stand) -> None:
    id = await _one_dead(stand)
    await stand.advance(365 * 24 * 3600)
    await stand.backend.prune(limit=100)
    assert await _dead_ids(stand) == [id]


# --- replay -----------------------------------------------------------------------------------------------


async def test_a_replayed_message_runs_again_under_the_same_id(stand: Stand) -> None:
    await stand.add("doomed", body=b"the same", priority=HIGH, task="mail.send")
    await stand.die(await stand.claim_one())
    assert await stand.backend.replay(stand.stream, ["doomed"]) == [ReplayAnswer.REPLAYED]
    assert (await stand.look("doomed")).task == "mail.send"
    claim = await stand.claim_one("doomed")
    assert (claim.body, claim.priority) == (b"the same", HIGH)
    assert await stand.settle(claim, kept(b"42")) is Verdict.KEPT


async def test_a_replayed_message_has_a_fresh_state(stand: Stand) -> None:
    id = await _one_dead(stand)
    await stand.backend.replay(stand.stream, [id])
    record = await stand.look(id)
    assert (record.status, record.state) == (JobStatus.QUEUED, FRESH)
    assert (record.reason, record.failure, record.ended_us) == (None, None, 0)
    assert (await stand.claim_one(id)).state == FRESH


async def test_a_replayed_message_is_a_dead_letter_no_longer(stand: Stand) -> None:
    id = await _one_dead(stand)
    await stand.backend.replay(stand.stream, [id])
    assert await _dead_ids(stand) == []
    counts = await stand.counts()
    assert (counts.dead, counts.queued) == (0, 1)


async def test_a_replayed_message_may_crash_as_often_as_a_new_one(stand: Stand) -> None:
    id = await stand.add()
    for _ in range(3):
        await stand.lose(await stand.claim_one(id))
    await stand.backend.replay(stand.stream, [id])
    recovery = await stand.lose(await stand.claim_one(id))
    assert (recovery.crashes, recovery.status) == (1, JobStatus.QUEUED)


async def test_a_replayed_message_does_not_expire(stand: Stand) -> None:
    await stand.add("doomed", lifetime=60)
    await stand.die(await stand.claim_one())
    await stand.advance(3600)
    await stand.backend.replay(stand.stream, ["doomed"])
    assert (await stand.claim_one()).expires_us == 0


async def test_replaying_what_is_not_dead_is_answered_gone(stand: Stand) -> None:
    queued = await stand.add()
    done = "finished"
    ids = [queued, done, "nobody"]
    assert await stand.backend.replay(stand.stream, ids) == [ReplayAnswer.GONE] * 3
    assert (await stand.counts()).queued == 1


async def test_replaying_twice_queues_once(stand: Stand) -> None:
    id = await _one_dead(stand)
    answers = await stand.backend.replay(stand.stream, [id, id])
    assert answers == [ReplayAnswer.REPLAYED, ReplayAnswer.GONE]
    assert await stand.claim_ids() == [id]


@pytest.mark.whole("parts have no common order")
async def test_many_are_replayed_in_the_order_given(stand: Stand) -> None:
    ids = [await _one_dead(stand) for _ in range(3)]
    order = [ids[1], ids[2], ids[0]]
    assert await stand.backend.replay(stand.stream, order) == [ReplayAnswer.REPLAYED] * 3
    assert await stand.claim_ids() == order


async def test_replaying_nothing_answers_nothing(stand: Stand) -> None:
    assert await stand.backend.replay(stand.stream, []) == []


async def test_a_message_may_die_replay_and_die_again(stand: Stand) -> None:
    id = await _one_dead(stand)
    for _ in range(3):
        await stand.backend.replay(stand.stream, [id])
        await stand.die(await stand.claim_one(id))
    assert await _dead_ids(stand) == [id]


async def test_a_fenced_outcome_from_before_the_death_is_lost_after_the_replay(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    await stand.die(await stand.claim_one(former.id, consumer="worker-2"))
    await stand.backend.replay(stand.stream, [former.id])
    assert await stand.settle(former, dead()) is Verdict.LOST
    assert await stand.status(former.id) is JobStatus.QUEUED


# --- discard ----------------------------------------------------------------------------------------------


@queue_and_group
async def test_a_discarded_dead_letter_is_forgotten(stand: Stand) -> None:
    id, other = await _one_dead(stand), await _one_dead(stand)
    assert await stand.backend.discard(stand.stream, [id]) == 1
    assert await stand.status(id) is JobStatus.UNKNOWN
    assert await _dead_ids(stand) == [other]
    assert (await stand.counts()).dead == 1


async def test_only_dead_letters_are_discarded(stand: Stand) -> None:
    queued = await stand.add()
    assert await stand.backend.discard(stand.stream, [queued, "nobody"]) == 0
    assert await stand.status(queued) is JobStatus.QUEUED


async def test_discarding_twice_counts_once(stand: Stand) -> None:
    id = await _one_dead(stand)
    assert await stand.backend.discard(stand.stream, [id, id]) == 1
    assert await stand.backend.discard(stand.stream, [id]) == 0


# --- rewrite ----------------------------------------------------------------------------------------------


async def test_a_dead_message_may_be_rewritten_and_replayed(stand: Stand) -> None:
    id = await _one_dead(stand)
    assert await stand.backend.rewrite(stand.stream, id, b"mended")
    assert (await stand.look(id)).status is JobStatus.DEAD
    await stand.backend.replay(stand.stream, [id])
    assert (await stand.claim_one(id)).body == b"mended"


async def test_a_scheduled_message_may_be_rewritten(stand: Stand) -> None:
    id = await stand.add(delay=10)
    assert await stand.backend.rewrite(stand.stream, id, b"mended")
    await stand.advance(11)
    await stand.promote()
    assert (await stand.claim_one(id)).body == b"mended"


async def test_a_retrying_message_may_be_rewritten_and_keeps_its_state(stand: Stand) -> None:
    claim = await stand.running()
    await stand.retry(claim, delay=10)
    assert await stand.backend.rewrite(stand.stream, claim.id, b"mended")
    await stand.advance(11)
    await stand.promote()
    again = await stand.claim_one(claim.id)
    assert (again.body, again.state.failures) == (b"mended", 1)


async def test_neither_queued_nor_running_messages_are_rewritten(stand: Stand) -> None:
    running, queued = await stand.running(), await stand.add()
    for id in (running.id, queued, "nobody"):
        assert not await stand.backend.rewrite(stand.stream, id, b"mended")
    assert (await stand.claim_one(queued)).body == b"hello"
    await stand.advance(LEASE + 1)
    await stand.reclaim()
    assert [claim.body for claim in await stand.claim()] == [b"hello"] * 2


async def _one_dead(stand: Stand) -> str:
    claim = await stand.running()
    await stand.die(claim)
    return claim.id


async def _dead_ids(stand: Stand, only: DeadFilter = ANY) -> list[str]:
    return [letter.id for letter in await stand.backend.dead_letters(stand.stream, only=only)]


async def test_the_oldest_dead_letters_come_first_with_their_ages(stand: Stand) -> None:
    assert await stand.backend.oldest_dead(stand.stream, limit=10) == []
    ids = []
    for _ in range(4):
        claim = await stand.running()
        await stand.die(claim)
        ids.append(claim.id)
        await stand.advance(10)
    oldest = await stand.backend.oldest_dead(stand.stream, limit=3)
    assert [each.id for each in oldest] == ids[:3]
    assert [round(each.age_us / SECOND, -1) for each in oldest] == [40, 30, 20]
    await stand.backend.discard(stand.stream, ids[:2])
    assert [each.id for each in await stand.backend.oldest_dead(stand.stream, limit=10)] == ids[2:]


async def test_a_replayed_dead_letter_that_dies_again_is_the_youngest(stand: Stand) -> None:
    claims = [await stand.running() for _ in range(2)]
    for claim in claims:
        await stand.die(claim)
        await stand.advance(10)
    first, second = [claim.id for claim in claims]
    await stand.backend.replay(stand.stream, [first])
    await stand.die(await stand.claim_one(first))
    assert [each.id for each in await stand.backend.oldest_dead(stand.stream, limit=10)] == [second, first]
