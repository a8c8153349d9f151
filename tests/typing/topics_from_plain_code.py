"""What type checkers must say of `app.sync` and `app.admin` for topics; see jobs.py for how this is read."""

from __future__ import annotations

from typing import assert_type

from headrace import App, Duplicate, EventInfo, GroupInfo, Page, Published, Refused, TopicInfo
from headrace.core.records.record import DeadLetter

app = App("memory://")
orders = app.topic("orders", int)

assert_type(app.sync.publish(orders, 7, key="customer-3", delay=60), str)
assert_type(app.sync.publish("orders", 7), str)
assert_type(
    app.sync.publish_many(orders, [1, orders.message(2, key="customer-3")]),
    list[Published | Duplicate | Refused],
)
assert_type(app.sync.admin.topics(), Page[TopicInfo])
assert_type(app.sync.admin.topics()[0].groups, tuple[GroupInfo, ...])
assert_type(app.sync.admin.dead(topic="orders", group="billing"), Page[DeadLetter])
for event in app.sync.admin.tail("orders"):
    assert_type(event, EventInfo)

app.sync.publish(orders, "x")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
app.sync.publish_many(orders, ["x"])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
app.sync.publish(orders, 7, priority="high")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def follow() -> None:
    assert_type(await app.admin.topics(), Page[TopicInfo])
    async for event in app.admin.tail("orders", since="beginning"):
        assert_type(event, EventInfo)
    await app.admin.reset_group("orders", "billing", to="new")
    assert_type(await app.admin.remove_group("orders", "billing"), bool)
    await app.admin.reset_group("orders", "billing", to=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
