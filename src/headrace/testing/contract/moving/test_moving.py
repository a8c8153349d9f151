"""A sealed store takes nothing new; what it holds is set aside, exported in pages, and imported once."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator

import pytest

from headrace.core.errors import ConfigurationError, StoreMoved
from headrace.core.history.entry import HistoryEntry
from headrace.core.history.recording import Recording, RingLimits
from headrace.core.messages.message import Stream, UniqueKey, group_stream
from headrace.core.messages.outcome import Done, Kept, Verdict
from headrace.core.moving.moving import (
    END,
    PAGE_BYTES,
    START,
    Imported,
    Moving,
    StoredMessage,
    StoredPage,
)
from headrace.core.moving.seal import Seal
from headrace.core.rules.producers import OUTBOX
from headrace.core.schedules import schedule_record
from headrace.core.store import Store
from headrace.core.topics.topic import BEGINNING, TopicRules
from headrace.testing.contract.kit.heartbeats import beat
from headrace.testing.contract.kit.stand import ORDERS, WORK, Stand, worker_info
from headrace.testing.contract.kit.tidy import check_that_nothing_is_left
from headrace.testing.contract.limits.kit import declare, limited

pytestmark = pytest.mark.whole("a move has streams as the store knows them, and parts are streams")

SEAL = Seal("move-1", "redis://elsewhere")
OTHER = Stream("queue", "other")


def moving(stand: Stand) -> Moving:
    store = stand.backend.store
    if not isinstance(store, Moving):
        pytest.skip("what this store holds ends with its process: it is not Moving")
    return store


@pytest.fixture(autouse=True)
async def unsealed(stand: Stand) -> AsyncIterator[None]:
    """A sealed store could not be tidied up."""
    yield
    store = moving(stand)
    if seal := await store.seal():
        if seal.stage == "moving":
            await store.set_seal(seal.at("moved"))
        await store.set_seal(None)


@pytest.fixture
async def target(stand: Stand) -> AsyncIterator[Stand]:
    """Another store of the same kind. What is left in its tables is found when `stand` is tidied up."""
    target = Stand(dataclasses.replace(stand.under_test, check_forgotten=_not_yet), stand.clock)
    try:
        await target.open()
        yield target
        await check_that_nothing_is_left(target)
    finally:
        await target.close()


async def _not_yet(store: Store) -> None: ...


async def move(stand: Stand, target: Stand) -> None:
    source = moving(stand)
    await source.set_seal(SEAL)
    await source.set_seal(SEAL.at("moving"))
    for each in await source.set_aside():
        place = START
        while place != END:
            place = await move_page(stand, target, each.stream, place)
    await source.set_seal(SEAL.at("moved"))


async def move_page(stand: Stand, target: Stand, stream: Stream, place: str) -> str:
    """Returns where the next page begins."""
    page = await moving(stand).export(stream, place)
    await moving(target).import_page(stream, page, move=SEAL.move, origin=stream)
    return page.next


async def test_a_store_is_not_sealed_at_first(stand: Stand) -> None:
    assert await moving(stand).seal() is None


async def test_a_sealed_store_takes_nothing_new_also_from_a_process_that_was_connected_before(
    stand: Stand,
) -> None:
    other = await stand.other()
    await other.append(stand.batch(stand.message(), producer="before"))
    await other.declare_topic(ORDERS, TopicRules())
    await moving(stand).set_seal(SEAL)

    steps = (
        lambda: other.append(stand.batch(stand.message(), producer="one")),
        lambda: other.append(stand.batch(*[stand.message() for _ in range(3)], producer="three")),
        lambda: other.append(stand.batch(stand.message(unique=UniqueKey("k")), producer="unique")),
        lambda: other.append(stand.batch(stand.message(), source=OTHER, producer="elsewhere")),
        lambda: other.append(stand.batch(stand.message(), source=ORDERS, producer="event")),
        lambda: other.declare_topic(ORDERS, TopicRules(max_length=7)),
        lambda: other.join(group_stream("orders", "late"), BEGINNING),
        lambda: other.pause(WORK, paused=False),
        lambda: other.swap_schedules([schedule_record.establish(WORK, "nightly")]),
    )
    for step in steps:
        with pytest.raises(StoreMoved, match="redis://elsewhere"):
            await step()
    counts = await stand.counts()
    assert (counts.queued, counts.scheduled) == (1, 0)
    assert OTHER not in await other.streams()


async def test_nothing_is_claimed_from_a_sealed_store_and_running_work_ends(stand: Stand) -> None:
    claim = await stand.running()
    await stand.add()
    await moving(stand).set_seal(SEAL)

    assert await stand.claim() == []
    assert await stand.settle(claim, Done()) is Verdict.KEPT
    counts = await stand.counts()
    assert (counts.queued, counts.running) == (1, 0)


async def test_a_relay_may_append_while_the_store_drains(stand: Stand) -> None:
    await moving(stand).set_seal(SEAL)
    relayed = stand.batch(stand.message("forwarded"), source=OTHER, producer=f"{OUTBOX}1", number=1)

    answers = await stand.backend.append(relayed)

    assert [answer.verdict for answer in answers] == ["accepted"]
    await moving(stand).set_seal(SEAL.at("moving"))
    with pytest.raises(StoreMoved):
        await stand.backend.append(stand.batch(stand.message(), producer=f"{OUTBOX}1", number=2))
    assert OTHER in [each.stream for each in await moving(stand).set_aside()]


async def test_a_seal_that_is_removed_gives_back_the_pauses_from_before(stand: Stand) -> None:
    await stand.add("waits")
    paused = await stand.queue("paused")
    await stand.backend.pause(paused, paused=True)
    await moving(stand).set_seal(SEAL)
    await moving(stand).set_seal(SEAL)  # a repeat changes nothing

    await moving(stand).set_seal(None)

    assert (await stand.counts(source=paused)).paused
    assert await stand.claim_ids() == ["waits"]
    await stand.add()
    await stand.backend.pause(paused, paused=False)


async def test_a_store_that_was_moved_is_empty_and_stays_sealed(stand: Stand, target: Stand) -> None:
    await stand.add("first")
    await stand.add("second")

    await move(stand, target)

    assert await moving(stand).seal() == SEAL.at("moved")
    assert await stand.backend.streams() == []
    assert await stand.backend.get(WORK, "first") is None
    with pytest.raises(StoreMoved):
        await stand.add()
    assert await target.claim_ids() == ["first", "second"]


async def test_the_history_does_not_outlive_the_move(stand: Stand, target: Stand) -> None:
    if not isinstance(stand.backend.store, Recording):
        pytest.skip("a history is a capability: it is not Recording")
    await stand.add("first")
    ended = HistoryEntry("ended", "greet", "succeeded", stand.now_us(), b"its arguments")
    await stand.backend.record_history(WORK, [ended], RingLimits())

    await move(stand, target)

    await moving(stand).set_seal(None)
    await stand.backend.declare_stream(WORK, 30_000_000)
    assert not (await stand.backend.history(WORK)).items
    assert await target.claim_ids() == ["first"]


async def test_a_worker_learns_where_everything_is(stand: Stand, target: Stand) -> None:
    await moving(stand).set_seal(SEAL)
    assert (await beat(stand.backend, worker_info())).moved_to == ""

    await move(stand, target)

    assert (await beat(stand.backend, worker_info())).moved_to == "redis://elsewhere"


async def test_a_store_that_was_moved_can_be_used_again(stand: Stand, target: Stand) -> None:
    await stand.add()
    await move(stand, target)

    await moving(stand).set_seal(None)
    await stand.backend.declare_stream(WORK, 30_000_000)
    claim = await stand.running()

    assert await stand.settle(claim, Done()) is Verdict.KEPT


async def test_a_page_is_taken_once(stand: Stand) -> None:
    store = moving(stand)
    page = StoredPage((StoredMessage("a", "greet", "queued", stand.now_us(), b"hello"),), START, "next")

    for _ in range(2):
        await store.import_page(WORK, page, move="move-2", origin=WORK)

    assert await store.imported([WORK], move="move-2") == [Imported("next", 1)]
    (claim,) = await stand.claim()
    await stand.settle(claim, Done())
    await store.import_page(WORK, page, move="move-2", origin=WORK)
    assert (await stand.counts()).queued == 0


async def test_a_page_is_taken_once_also_when_another_store_moves_here_in_between(stand: Stand) -> None:
    store = moving(stand)

    async def take(id: str, move: str) -> None:
        message = StoredMessage(id, "greet", "queued", stand.now_us(), b"hello")
        await store.import_page(WORK, StoredPage((message,), START, "next"), move=move, origin=WORK)

    await take("a", "move-2")
    await take("b", "move-3")
    for claim in await stand.claim(limit=2):
        await stand.settle(claim, Done())
    await take("a", "move-2")

    assert (await stand.counts()).queued == 0
    assert await store.imported([WORK], move="move-2") == [Imported("next", 1)]


async def test_a_message_whose_id_is_known_is_a_conflict_and_nothing_of_its_page_is_taken(
    stand: Stand,
) -> None:
    store = moving(stand)
    await stand.add("known")
    items = tuple(
        StoredMessage(id, "greet", "queued", stand.now_us(), b"hello") for id in ("unknown", "known")
    )

    with pytest.raises(ConfigurationError, match="known"):
        await store.import_page(WORK, StoredPage(items, START, "next"), move="move-2", origin=WORK)

    assert await store.imported([WORK], move="move-2") == [Imported()]
    assert await stand.claim_ids() == ["known"]


async def test_a_unique_key_that_another_message_holds_is_a_conflict(stand: Stand) -> None:
    store = moving(stand)
    await stand.add("owner", unique=UniqueKey("k"))
    item = StoredMessage(
        "second", "greet", "queued", stand.now_us(), b"", key="k", until="finished", holds_key=True
    )

    with pytest.raises(ConfigurationError, match="unique key"):
        await store.import_page(WORK, StoredPage((item,), START, "next"), move="move-2", origin=WORK)

    assert await stand.claim_ids() == ["owner"]


async def test_large_messages_and_results_after_small_ones_are_spread_over_pages(stand: Stand) -> None:
    contents = [b"small"] * 5 + [b"x" * (PAGE_BYTES // 2 + 1)] * 3
    for number, content in enumerate(contents):
        ended = await stand.running(f"ended-{number}")
        await stand.settle(ended, Done(Kept(content, 3_600_000_000)))
    await stand.append(*[stand.message(f"{number}", body=each) for number, each in enumerate(contents)])

    store, place, sizes = moving(stand), START, []
    await store.set_seal(SEAL)
    await store.set_seal(SEAL.at("moving"))
    while place != END:
        page = await store.export(WORK, place)
        messages = [item for item in page.items if isinstance(item, StoredMessage)]
        sizes.append(sum(len(each.body or b"") + len(each.result or b"") for each in messages))
        place = page.next

    assert max(sizes) <= PAGE_BYTES
    assert sum(sizes) == 2 * sum(map(len, contents))


async def test_a_member_that_claims_before_the_log_is_there_does_not_begin_anew(
    stand: Stand, target: Stand
) -> None:
    billing = group_stream("orders", "billing")
    await stand.backend.join(billing, BEGINNING)
    await stand.backend.declare_stream(billing, 30_000_000)
    await stand.append(stand.message("handled"), source=ORDERS)
    (claim,) = await stand.claim(sources=[billing])
    await stand.settle(claim, Done())
    await moving(stand).set_seal(SEAL)
    await moving(stand).set_seal(SEAL.at("moving"))

    place = await move_page(stand, target, billing, START)
    assert await target.claim(sources=[billing]) == []
    for stream, at in ((ORDERS, START), (billing, place)):
        while at != END:
            at = await move_page(stand, target, stream, at)

    assert await target.claim(sources=[billing]) == []
    assert (await target.counts(source=billing)).paused is False


async def test_messages_arrive_in_their_order_with_their_attempts(stand: Stand, target: Stand) -> None:
    failed = await stand.running("failed")
    await stand.retry(failed, delay=50)
    lanes = [(lane, number) for number in range(3) for lane in (2, 1, 0)]
    await stand.append(*[stand.message(f"{lane}{number}", priority=lane) for lane, number in lanes])

    await move(stand, target)

    assert await target.claim_ids() == ["00", "01", "02", "10", "11", "12", "20", "21", "22"]
    await target.advance(51)
    await target.promote()
    (again,) = await target.claim()
    assert (again.id, again.state.attempt) == ("failed", 2)


@pytest.mark.usefixtures("limiting")
async def test_limits_tenants_and_order_come_with_the_messages(stand: Stand, target: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await declare(target, "stripe", max_running=1)
    await stand.append(
        stand.message("first", key="a", constraints=limited("stripe", tenant="acme")),
        stand.message("second", key="a"),
        stand.message("third", constraints=limited("stripe")),
    )
    await move(stand, target)
    (claim,) = await target.claim()
    assert (claim.id, claim.constraints) == ("first", limited("stripe", tenant="acme"))
    await target.settle_done(claim)
    claims = await target.claim()
    assert {claim.id for claim in claims} == {"second", "third"}
    for claim in claims:
        await target.settle_done(claim)
