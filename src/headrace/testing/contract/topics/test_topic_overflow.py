"""A batch with a limit: events are refused that the log has no room for."""

from __future__ import annotations

import msgspec
import pytest

from headrace.core.messages.message import Message, UniqueKey
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.orders import DAY, Orders
from headrace.testing.contract.kit.waits import LONG, started

pytestmark = pytest.mark.whole("each part has the limit")


async def verdicts(orders: Orders, limit: int, *events: Message) -> str:
    """The first letters of the verdicts."""
    batch = orders.stand.batch(*events, source=orders.source)
    answers = await orders.backend.append(msgspec.structs.replace(batch, limit=limit))
    assert [answer.id for answer in answers if answer.verdict != "duplicate"] == [
        event.id for event, answer in zip(events, answers, strict=True) if answer.verdict != "duplicate"
    ]
    return "".join(answer.verdict[0] for answer in answers)


async def test_a_log_that_no_group_draws_from_takes_as_many_as_the_limit(orders: Orders) -> None:
    assert await verdicts(orders, 3, *[orders.event(id) for id in "abcd"]) == "aaaf"
    assert await verdicts(orders, 3, orders.event("e")) == "f"
    assert await orders.ids() == ["a", "b", "c"]
    assert await verdicts(orders, 4, orders.event("f")) == "a"


async def test_events_that_every_live_group_has_drawn_do_not_count(orders: Orders) -> None:
    await orders.declare_topic(max_length=2)
    billing, shipping = await orders.join("billing"), await orders.join("shipping")
    assert await verdicts(orders, 2, orders.event("a"), orders.event("b")) == "aa"
    assert await verdicts(orders, 2, orders.event("c")) == "f"
    await orders.finish(billing)
    assert await verdicts(orders, 2, orders.event("c")) == "f"  # the other group has not drawn them
    await orders.backend.remove_stream(shipping)
    assert await verdicts(orders, 2, *[orders.event(id) for id in "cde"]) == "aaf"
    assert await orders.finish(billing) == ["c", "d"]


async def test_a_waiting_member_draws_no_more_than_it_asks_for(orders: Orders) -> None:
    """Events must not pile up in the stream of a slow group instead of in the log."""
    await orders.declare_topic(max_length=3)
    billing = await orders.join("billing")
    assert await orders.stand.claim(1, sources=[billing], wait=0.05) == []
    waiting = await started(orders.stand.claim(1, sources=[billing], wait=LONG))
    accepted = [await verdicts(orders, 3, orders.event()) for _ in range(30)].count("a")
    assert len(await waiting) == 1
    assert 3 <= accepted <= 6


async def test_a_group_without_a_live_member_does_not_count(orders: Orders) -> None:
    await orders.declare_topic(max_length=2)
    billing = await orders.join("billing")
    assert await verdicts(orders, 2, orders.event("a"), orders.event("b")) == "aa"
    await orders.finish(billing)
    await orders.stand.advance(DAY + 1)
    assert await verdicts(orders, 2, orders.event("c")) == "f"


async def test_old_events_make_room(orders: Orders) -> None:
    await orders.declare_topic(retention=60)
    assert await verdicts(orders, 1, orders.event("a"), orders.event("b")) == "af"
    await orders.stand.advance(61)
    assert await verdicts(orders, 1, orders.event("c"), orders.event("d")) == "af"
    assert await orders.ids() == ["c"]


async def test_an_event_that_was_published_before_is_a_duplicate_also_when_there_is_no_room(
    orders: Orders,
) -> None:
    once = UniqueKey("order-4711", "elapsed", microseconds(60))
    assert await verdicts(orders, 1, orders.event("a", unique=once)) == "a"
    assert await verdicts(orders, 1, orders.event("b", unique=once), orders.event("c")) == "df"


async def test_a_refused_event_holds_no_unique_key(orders: Orders) -> None:
    once = UniqueKey("order-4711", "elapsed", microseconds(60))
    assert await verdicts(orders, 1, orders.event("a"), orders.event("b", unique=once)) == "af"
    assert await verdicts(orders, 2, orders.event("c", unique=once)) == "a"


async def test_a_repeated_batch_gets_the_same_answers(orders: Orders) -> None:
    events = [orders.event("a"), orders.event("b")]
    batch = msgspec.structs.replace(orders.stand.batch(*events, source=orders.source), limit=1)
    first = await orders.backend.append(batch)
    assert [answer.verdict for answer in first] == ["accepted", "full"]
    assert await orders.backend.append(batch) == first
    assert await orders.ids() == ["a"]
