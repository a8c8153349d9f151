"""A topic for tests, and short ways to look at what became of its events."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace import App, DeadLetter, Event, GroupInfo, Topic
from headrace.store import Batch, Message, Store, Stream
from tests.support.waiting import wait_until


class OrderPlaced(msgspec.Struct, frozen=True):
    order_id: int


def orders_of(app: App) -> Topic[OrderPlaced]:
    return app.topic("orders", OrderPlaced)


def numbers(events: Sequence[OrderPlaced | Event[OrderPlaced]]) -> list[int]:
    return [each.payload.order_id if isinstance(each, Event) else each.order_id for each in events]


async def placed(topic: Topic[OrderPlaced], *order_ids: int, key: str | None = None) -> list[str]:
    """Publish these orders in one go; their ids."""
    outcomes = await topic.publish_many([topic.message(OrderPlaced(each), key=key) for each in order_ids])
    return [each.id for each in outcomes]  # type: ignore[union-attr]


async def counts(app: App, group: str, topic: str = "orders") -> GroupInfo:
    return await group_of(app, group, topic) or GroupInfo(group)


async def dead(app: App, group: str, topic: str = "orders") -> list[DeadLetter]:
    return list(await app.admin.dead(topic=topic, group=group))


async def until_dead(app: App, group: str, count: int = 1) -> list[DeadLetter]:
    async def are_dead() -> bool:
        return len(await dead(app, group)) >= count

    await wait_until(are_dead, message=f"{count} dead letters of {group}")
    return await dead(app, group)


async def group_of(app: App, group: str, topic: str = "orders") -> GroupInfo | None:
    groups = [each for info in await app.admin.topics() if info.name == topic for each in info.groups]
    return next((each for each in groups if each.group == group), None)


async def until_done(app: App, *groups: str) -> None:
    """Wait until nothing is queued, running or retrying in these groups."""

    async def is_empty() -> bool:
        seen = [await counts(app, group) for group in groups]
        return not any(each.lag or each.running or each.retrying for each in seen)

    await wait_until(is_empty, message=f"{groups} have handled everything")


async def smuggle(store: Store, body: bytes, id: str = "smuggled") -> None:
    """Write bytes to the topic that no topic would have written."""
    batch = Batch(Stream("topic", "orders"), "smuggler", 1, [Message(id, "?", body)])
    await store.append(batch)
