"""Queues and topics in parts move with their layout, or become one queue in a store without parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from headrace import App
from headrace.core.errors import ConfigurationError
from headrace.core.store import Store
from tests.integration.moving.conftest import Place
from tests.integration.moving.test_moves import move_of

pytestmark = pytest.mark.anyio

Open = Callable[[Place], Awaitable[Store]]

#: More than the parts, so that each part has some.
MANY = 40


def app_at(place: Place) -> App:
    return App(place[0], namespace=place[1])


async def filled(place: Place, *, topic: bool = True) -> None:
    """Jobs and events in parts. Nothing was ever in the queue and the topic themselves."""
    app = app_at(place)
    app.queue("mails", partitions=3)
    async with app:
        await app.enqueue_many([app.remote("send", queue="mails").call(number) for number in range(MANY)])
        if topic:
            orders = app.topic("orders", int, partitions=3)
            await orders.publish_many([orders.message(number, key=str(number)) for number in range(MANY)])


@pytest.mark.parametrize(("source_kind", "target_kind"), [("sqlite", "valkey"), ("valkey", "sqlite")])
async def test_a_queue_and_a_topic_whose_parts_alone_are_used_arrive_in_parts(
    source_kind: str, target_kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    source, target = place(source_kind), place(target_kind)
    await filled(source)

    await move_of(await opened(source), await opened(target)).run(drain_limit=10)

    app = app_at(target)
    seen: list[int] = []

    @app.task(name="send", queue="mails")
    @app.topic("orders", int).subscribe(group="billing", start="beginning")
    async def see(number: int) -> None:
        seen.append(number)

    async with app:
        [queue], [topic] = await app.admin.queues(), await app.admin.topics()
        assert (queue.queued, queue.partitions) == (MANY, 3)
        assert (topic.length, topic.partitions) == (MANY, 3)
        await app.worker().run(burst=True)
    assert sorted(seen) == sorted([*range(MANY), *range(MANY)])


@pytest.mark.parametrize(("source_kind", "target_kind"), [("sqlite", "valkey"), ("valkey", "sqlite")])
async def test_a_target_that_has_made_the_same_parts_itself_takes_everything(
    source_kind: str, target_kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    source, target = place(source_kind), place(target_kind)
    await filled(source)
    await filled(target, topic=False)

    await move_of(await opened(source), await opened(target)).run(drain_limit=10)

    async with app_at(target) as app:
        [queue], [topic] = await app.admin.queues(), await app.admin.topics()
    assert (queue.queued, topic.length) == (2 * MANY, MANY)


@pytest.mark.parametrize("kind", ["queue", "topic"])
async def test_a_target_with_other_parts_is_refused_before_anything_is_sealed(
    kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    source, target = place("sqlite"), place("valkey")
    await filled(source)
    async with app_at(target) as app:
        if kind == "queue":
            app.queue("mails", partitions=2)
            await app.remote("send", queue="mails").enqueue(1)
        else:
            await app.topic("orders", int).publish(1, delay=3600)

    with pytest.raises(ConfigurationError, match=f"^{kind} '(mails|orders)' is split in another way"):
        await move_of(await opened(source), await opened(target)).run(drain_limit=10)

    await filled(source)


async def test_the_parts_of_a_queue_become_one_queue_that_is_paused_as_before(
    place: Callable[[str], Place], opened: Open
) -> None:
    source, target = place("sqlite"), place("postgresql")
    await filled(source, topic=False)
    async with app_at(source) as app:
        await app.admin.pause("mails")

    await move_of(await opened(source), await opened(target)).run(drain_limit=10)

    async with app_at(target) as app:
        [queue] = await app.admin.queues()
    assert (queue.queued, queue.paused) == (MANY, True)


async def test_a_topic_with_parts_is_refused_by_a_store_without_them_before_anything_is_sealed(
    place: Callable[[str], Place], opened: Open
) -> None:
    source = place("valkey")
    await filled(source)

    with pytest.raises(ConfigurationError, match="no topics with parts, and 'orders' has some"):
        await move_of(await opened(source), await opened(place("postgresql"))).run(drain_limit=10)

    await filled(source)
