"""Looking and steering: topics, groups, the dead letters of events, and following a topic."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headrace import (
    App,
    ConfigurationError,
    EventInfo,
    GroupInfo,
    JobStatus,
    RetryPolicy,
    Secret,
    Topic,
    UnknownEvent,
    Unrecoverable,
)
from headrace.core.runtime.clock import MovableClock
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain

#: Id, queue, topic and group of a dead letter.
Letter = tuple[str, str | None, str | None, str | None]


class Placed(msgspec.Struct):
    number: int
    card: Secret[str] | None = None


class Shop:
    """A topic with two groups: billing refuses odd numbers for as long as it is `strict`."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.orders: Topic[Placed] = app.topic("orders", Placed)
        self.billed: list[int] = []
        self.audited: list[int] = []
        self.strict = True

        @self.orders.subscribe(group="billing", start="beginning", retry=RetryPolicy.none())
        async def bill(event: Placed) -> None:
            if self.strict and event.number % 2:
                raise Unrecoverable(f"{event.number} is odd")
            self.billed.append(event.number)

        @self.orders.subscribe(group="audit", start="beginning", ordered=True, retry=RetryPolicy.none())
        async def audit(event: Placed) -> None:
            if self.strict and event.number == 3:
                raise ValueError("three")
            self.audited.append(event.number)

    async def publish(self, *numbers: int, **options: Any) -> list[str]:
        return [await self.orders.publish(Placed(number), **options) for number in numbers]

    async def group(self, name: str = "billing") -> GroupInfo:
        [topic] = await self.app.admin.topics()
        return next(each for each in topic.groups if each.group == name)


@pytest.fixture
def shop(app: App) -> Shop:
    return Shop(app)


async def all_of(app: App, topic: str = "orders", **options: Any) -> list[EventInfo]:
    return [event async for event in app.admin.tail(topic, follow=False, **options)]


# --- looking -------------------------------------------------------------------------------------------


async def test_a_topic_says_what_is_in_it_and_for_how_long(app: App, clock: MovableClock) -> None:
    orders = app.topic("orders", retention=timedelta(hours=2), max_length=500, retention_strict=False)
    app.topic("silent")
    assert await app.admin.topics() == []
    await orders.publish({"n": 1})
    clock.advance(60)
    await orders.publish({"n": 2})
    await orders.publish({"n": 3}, delay=60)
    [topic] = await app.admin.topics()
    assert (topic.name, topic.length, topic.scheduled, topic.groups) == ("orders", 2, 1, ())
    assert (topic.retention, topic.max_length, topic.strict) == (7200, 500, False)
    assert topic.first is not None
    assert topic.last is not None
    assert (topic.last - topic.first).total_seconds() == pytest.approx(60, abs=20)


async def test_a_topic_without_a_bound_says_so(app: App) -> None:
    await app.topic("orders", retention=None).publish(1)
    [topic] = await app.admin.topics()
    assert (topic.retention, topic.max_length, topic.strict) == (None, None, True)


async def test_groups_say_how_far_they_are_behind(app: App, shop: Shop, clock: MovableClock) -> None:
    await drain(app)
    written = clock.now_us()
    await shop.publish(2, 4)
    clock.advance(30)
    await shop.publish(6)
    billing = await shop.group()
    assert (billing.lag, billing.running, billing.dead, billing.position) == (3, 0, 0, 0)
    assert billing.oldest is not None
    assert abs(billing.oldest.timestamp() - written / 1e6) < 20
    assert billing.seen is not None
    await drain(app)
    billing, audit = await shop.group(), await shop.group("audit")
    assert (billing.lag, billing.oldest, billing.position) == (0, None, 3)
    assert (billing.ordered, audit.ordered) == (False, True)


async def test_what_is_drawn_and_not_begun_lags_behind_too(app: App, shop: Shop) -> None:
    await shop.publish(1)
    await drain(app)
    assert (await shop.group()).lag == 0
    await app.admin.replay(topic="orders", group="billing")
    await shop.publish(3)
    billing = await shop.group()
    assert (billing.lag, billing.dead) == (2, 0)
    assert billing.queued >= 1


async def test_what_is_handled_does_not_lag(app: App) -> None:
    inside, gate = asyncio.Event(), asyncio.Event()
    orders = app.topic("orders")

    @orders.subscribe(group="slow", start="beginning", max_in_flight=4)
    async def slow(event: int) -> None:
        inside.set()
        await gate.wait()

    await orders.publish_many(range(10))
    async with app.worker(concurrency=1, lease=LONG):
        await inside.wait()
        [topic] = await app.admin.topics()
        [group] = topic.groups
        gate.set()
        assert group.lag + group.running == 10
        assert group.running >= 1


async def test_an_event_in_the_hands_of_a_group_is_found_by_its_id(app: App, shop: Shop) -> None:
    [id] = await shop.publish(1, key="customer-3", headers={"source": "web"}, source="till")
    assert await app.admin.job(id) is None
    await drain(app)
    info = await app.admin.job(id)
    assert info is not None
    assert (info.topic, info.group, info.queue, info.task) == ("orders", "billing", "", "Placed")
    assert (info.status, info.reason) == (JobStatus.DEAD, "unrecoverable")
    assert await app.admin.job(id, topic="orders", group="billing") == info
    assert await app.admin.job(id, topic="orders", group="audit") is None
    assert await app.admin.job(id, queue="default") is None


async def test_where_an_event_is_dead_is_shown_before_where_it_waits(app: App, shop: Shop) -> None:
    [three] = await shop.publish(3)
    await drain(app)
    for replayed, shown in (("audit", "billing"), ("billing", "audit")):
        assert await app.admin.replay(ids=[three], topic="orders", group=replayed) == 1
        info = await app.admin.job(three)
        assert info is not None
        assert (info.group, info.status) == (shown, JobStatus.DEAD)
        await drain(app)


async def test_its_contents_are_shown_with_secrets_masked(app: App, shop: Shop) -> None:
    id = await shop.orders.publish(Placed(1, Secret("4111")), key="customer-3", headers={"source": "web"})
    await drain(app)
    contents = await app.admin.contents(id)
    assert contents is not None
    assert contents.event is not None
    assert contents.event.payload == {"number": 1, "card": "***"}
    assert (contents.event.key, contents.event.kind, contents.headers) == (
        "customer-3",
        "Placed",
        {"source": "web"},
    )
    assert (contents.args, contents.kwargs, contents.problem) == ((), {}, "")


async def test_events_of_a_group_are_listed_by_state(app: App, shop: Shop) -> None:
    one, _, three = await shop.publish(1, 2, 3)
    await drain(app)
    page = await app.admin.jobs(topic="orders", group="billing", state="dead")
    assert {info.id for info in page} == {one, three}
    with pytest.raises(ConfigurationError, match="give group=, too"):
        await app.admin.jobs(topic="orders")


# --- dead letters --------------------------------------------------------------------------------------


async def test_one_desk_has_the_dead_letters_of_jobs_and_of_events(app: App, shop: Shop) -> None:
    @app.task(name="fail", retry=RetryPolicy.none())
    async def fail() -> int:
        raise ValueError("no")

    job = await fail.enqueue()
    one, three = await shop.publish(1, 3)
    await drain(app)

    async def dead(**where: Any) -> list[Letter]:
        page = await app.admin.dead(**where)
        return in_order([(letter.id, letter.queue, letter.topic, letter.group) for letter in page])

    def in_order(letters: list[Letter]) -> list[Letter]:
        return sorted(letters, key=lambda letter: (letter[0], letter[3] or ""))

    of_billing: list[Letter] = [(one, None, "orders", "billing"), (three, None, "orders", "billing")]
    of_audit: list[Letter] = [(three, None, "orders", "audit")]
    of_job: list[Letter] = [(job.id, "default", None, None)]
    assert await dead() == in_order(of_job + of_audit + of_billing)
    assert await dead(queue="default") == of_job
    assert await dead(topic="orders") == in_order(of_audit + of_billing)
    assert await dead(topic="orders", group="billing") == in_order(of_billing)
    assert await dead(topic="elsewhere") == []
    assert await dead(reason="exhausted") == in_order(of_job + of_audit)
    assert await dead(task="Placed", reason="exhausted") == of_audit


async def test_the_payload_of_a_dead_event_is_what_was_published(app: App, shop: Shop) -> None:
    await shop.publish(1)
    await drain(app)
    [letter] = await app.admin.dead()
    assert msgspec.msgpack.decode(letter.payload, type=Placed) == Placed(1)
    assert (letter.reason, letter.error, letter.attempts) == ("unrecoverable", "1 is odd", 1)


async def test_the_whole_desk_is_listed_page_by_page(app: App, shop: Shop) -> None:
    @app.task(name="fail", retry=RetryPolicy.none())
    async def fail() -> int:
        raise ValueError("no")

    await app.enqueue_many([fail.call() for _ in range(3)])
    await shop.publish(1, 3, 5, 7)
    await drain(app)
    whole = [(letter.id, letter.group) for letter in await app.admin.dead()]
    assert len(set(whole)) == 3 + 4 + 1
    for limit in (1, 2, 3, 7, 8):
        found: list[tuple[str, str | None]] = []
        cursor = None
        for _ in range(20):
            page = await app.admin.dead(cursor=cursor, limit=limit)
            assert len(page) <= limit
            found += [(letter.id, letter.group) for letter in page]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == whole


async def test_what_is_no_cursor_is_refused(app: App, shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="is no cursor of this listing"):
        await app.admin.dead(cursor="nonsense")


async def test_a_place_that_makes_no_sense_is_refused(app: App) -> None:
    with pytest.raises(ConfigurationError, match="group= needs topic="):
        await app.admin.dead(group="billing")
    with pytest.raises(ConfigurationError, match="queue= or topic=, not both"):
        await app.admin.replay(queue="default", topic="orders")
    with pytest.raises(ConfigurationError, match="topic name 'a/b' is not allowed"):
        await app.admin.dead(topic="a/b")
    with pytest.raises(ConfigurationError, match="name the dead letters"):
        await app.admin.discard()


async def test_a_replay_goes_to_the_group_that_is_named_and_to_no_other(app: App, shop: Shop) -> None:
    await shop.publish(1, 3)
    await drain(app)
    shop.strict = False
    assert await app.admin.replay(topic="orders", group="billing") == 2
    await drain(app)
    assert sorted(shop.billed) == [1, 3]
    assert shop.audited == [1]
    assert [letter.group for letter in await app.admin.dead()] == ["audit"]


async def test_an_id_is_replayed_in_every_group_in_which_it_is_dead(app: App, shop: Shop) -> None:
    one, three = await shop.publish(1, 3)
    await drain(app)
    shop.strict = False
    assert await app.admin.replay(ids=[three]) == 2
    await drain(app)
    assert (shop.billed, shop.audited) == ([3], [1, 3])
    assert [letter.id for letter in await app.admin.dead()] == [one]


async def test_an_event_may_be_retried_by_its_id(app: App, shop: Shop) -> None:
    _, three = await shop.publish(2, 3)
    await drain(app)
    shop.strict = False
    assert not await app.admin.retry_now(three, queue="default")
    assert await app.admin.retry_now(three, topic="orders", group="audit")
    await drain(app)
    assert (shop.billed, shop.audited) == ([2], [2, 3])
    assert await app.admin.retry_now(three)
    assert not await app.admin.retry_now(three)


async def test_a_retrying_event_is_run_now_or_cancelled(app: App) -> None:
    orders = app.topic("orders", int)
    seen: list[int] = []

    @orders.subscribe(group="slow", start="beginning", retry=RetryPolicy.fixed(5, 3600))
    async def slow(event: int) -> None:
        seen.append(event)
        raise ValueError("not yet")

    async def retrying(number: int) -> bool:
        [topic] = await app.admin.topics()
        return [group.retrying for group in topic.groups] == [number]

    first, second = await orders.publish(1), await orders.publish(2)
    async with app.worker(lease=LONG):
        await wait_until(lambda: retrying(2))
        assert await app.admin.retry_now(first)
        await wait_until(lambda: seen.count(1) == 2)
        await wait_until(lambda: retrying(2))
        assert await app.admin.cancel([second], topic="orders", group="slow") == 1
        assert await app.admin.cancel([second]) == 0
        assert await retrying(1)


async def test_dead_events_are_discarded(app: App, shop: Shop) -> None:
    one, _ = await shop.publish(1, 3)
    await drain(app)
    assert await app.admin.discard(topic="orders", reason="exhausted") == 1
    assert await app.admin.discard(ids=[one], topic="orders", group="audit") == 0
    assert await app.admin.discard(ids=[one]) == 1
    assert len(await app.admin.dead()) == 1


async def test_an_event_is_not_edited_and_the_refusal_says_what_to_do(app: App, shop: Shop) -> None:
    [id] = await shop.publish(1)
    await drain(app)
    with pytest.raises(ConfigurationError, match="publish a corrected one"):
        await app.admin.edit(id, args=[2])


# --- groups --------------------------------------------------------------------------------------------


async def test_a_group_is_reset_to_any_place(app: App, shop: Shop, clock: MovableClock) -> None:
    ids = await shop.publish(2)
    clock.advance(60)
    [before] = await app.admin.topics()
    ids += await shop.publish(4, 6)
    await drain(app)
    assert before.last is not None

    async def handled_again(to: Any) -> list[int]:
        shop.billed.clear()
        await app.admin.reset_group("orders", "billing", to=to)
        await drain(app)
        return sorted(shop.billed)

    assert await handled_again("beginning") == [2, 4, 6]
    assert await handled_again("new") == []
    assert await handled_again(ids[2]) == [6]
    assert await handled_again(before.last + timedelta(seconds=30)) == [4, 6]
    assert shop.audited == [2, 4, 6]


async def test_a_reset_that_cannot_be_is_refused(app: App, shop: Shop) -> None:
    await shop.publish(2)
    await drain(app)
    with pytest.raises(ConfigurationError, match="topic 'orders' has no group 'nobody'"):
        await app.admin.reset_group("orders", "nobody", to="new")
    with pytest.raises(UnknownEvent):
        await app.admin.reset_group("orders", "billing", to="no-such-event")
    with pytest.raises(ConfigurationError, match="to must be 'new', 'beginning'"):
        await app.admin.reset_group("orders", "billing", to=7)  # type: ignore[arg-type]


async def test_a_removed_group_is_gone_with_its_dead_letters(app: App, shop: Shop) -> None:
    await shop.publish(1, 2)
    await drain(app)
    assert await app.admin.remove_group("orders", "billing")
    assert not await app.admin.remove_group("orders", "billing")
    [topic] = await app.admin.topics()
    assert [group.group for group in topic.groups] == ["audit"]
    assert len(await app.admin.dead(topic="orders")) == 0
    assert topic.length == 2


async def test_a_paused_group_is_handed_nothing_and_no_other_notices(app: App, shop: Shop) -> None:
    await drain(app)
    await app.admin.pause_group("orders", "billing")
    assert (await shop.group()).paused
    async with app.worker(lease=LONG):
        await shop.publish(2, 4)
        await wait_until(lambda: shop.audited == [2, 4])
        assert shop.billed == []
        await app.admin.resume_group("orders", "billing")
        await wait_until(lambda: sorted(shop.billed) == [2, 4])
    assert not (await shop.group()).paused


async def test_a_group_that_does_not_exist_cannot_be_paused(app: App, shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="has no group 'billing'"):
        await app.admin.pause_group("orders", "billing")
    assert await app.admin.topics() == []


# --- following a topic ---------------------------------------------------------------------------------


async def test_a_tail_shows_what_is_there_in_order(app: App, shop: Shop) -> None:
    await shop.publish(1, 2, key="customer-3", source="till", headers={"a": "b"}, correlation_id="c")
    first, second = await all_of(app, since="beginning")
    assert [first.payload["number"], second.payload["number"]] == [1, 2]
    assert (first.number, first.topic, first.kind, first.key) == (1, "orders", "Placed", "customer-3")
    assert (first.source, first.headers, first.correlation_id) == ("till", {"a": "b"}, "c")
    assert first.at is not None
    assert [event.id for event in await all_of(app, since=second.id)] == [second.id]
    assert await all_of(app) == []
    assert await all_of(app, "elsewhere", since="beginning") == []
    assert [topic.name for topic in await app.admin.topics()] == ["orders"]


async def test_a_tail_masks_secrets(app: App, shop: Shop) -> None:
    await shop.orders.publish(Placed(1, Secret("4111")))
    [event] = await all_of(app, since="beginning")
    assert event.payload == {"number": 1, "card": "***"}
    assert "4111" not in repr(event)


async def test_a_tail_follows_what_is_published_until_it_is_stopped(app: App, shop: Shop) -> None:
    seen: list[int] = []
    tail = app.admin.tail("orders", since="beginning")

    async def follow() -> None:
        async for event in tail:
            seen.append(event.payload["number"])

    following = asyncio.create_task(follow())
    for number in range(300):
        await shop.publish(number)
    await wait_until(lambda: seen == list(range(300)))
    assert not following.done()
    await tail.stop()
    await asyncio.wait_for(following, 10)
    assert (await app.admin.topics())[0].groups == ()


async def test_closing_the_app_ends_a_tail_that_waits(app: App, store: InterceptedStore, shop: Shop) -> None:
    await shop.publish(1)
    reads, opened = store.watch("read"), store.watch("open")
    tail = app.admin.tail("orders", since="beginning")
    await anext(tail)
    waiting = asyncio.create_task(anext(tail, None))
    await wait_until(lambda: reads.under_way)
    await app.close()
    assert await asyncio.wait_for(waiting, 10) is None
    assert not opened.made, "the store was opened anew"


async def test_a_tail_begins_where_a_group_has_not_begun(app: App, shop: Shop, clock: MovableClock) -> None:
    await shop.publish(2, 4)
    await drain(app)
    clock.advance(1)
    await shop.publish(6, 8)
    assert [event.payload["number"] for event in await all_of(app, group="billing")] == [6, 8]
    await drain(app)
    assert await all_of(app, group="billing") == []
    with pytest.raises(ConfigurationError, match="has no group 'nobody'"):
        await all_of(app, group="nobody")
    with pytest.raises(ConfigurationError, match="since= or group=, not both"):
        app.admin.tail("orders", since="new", group="billing")


async def test_what_cannot_be_read_is_shown_with_the_reason() -> None:
    class Locked:
        def encode(self, payload: bytes) -> bytes:
            return b"locked" + payload

        def decode(self, data: bytes) -> bytes:
            return data.removeprefix(b"locked")

    locked, open_ = App("memory://locked", codec=Locked()), App("memory://locked")
    try:
        await locked.topic("orders").publish({"n": 1})
        [event] = await all_of(locked, since="beginning")
        assert event.payload == {"n": 1}
        [event] = await all_of(open_, since="beginning")
        assert (event.payload, event.kind) == (None, "dict")
        assert "the payload cannot be read" in event.problem
    finally:
        await locked.close()
        await open_.close()
