"""Actions carried out, on a real store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace import App
from headrace.admin.place import Place
from headrace.cli.watch.screen import perform
from headrace.cli.watch.state import WatchAction

BILLING = Place(None, "orders", "billing")

Enqueue = Callable[..., Any]


def done(app: App, action: WatchAction) -> str:
    """What the screen says afterwards."""
    return app.sync._portal.run(perform, app, action)


def mails(app: App) -> Any:
    [queue] = [queue for queue in app.sync.admin.queues() if queue.name == "mails"]
    return queue


def billing(app: App) -> Any:
    [group] = [
        group for topic in app.sync.admin.topics() for group in topic.groups if group.group == "billing"
    ]
    return group


def test_a_queue_is_paused_and_goes_on(app: App, enqueue: Enqueue) -> None:
    enqueue("shop.mail", "ada")
    assert done(app, WatchAction("pause", Place("mails"))) == "mails is paused; p resumes it"
    assert mails(app).paused
    assert done(app, WatchAction("resume", Place("mails"))) == "mails is resumed"
    assert not mails(app).paused


def test_a_group_is_paused_and_goes_on(app: App, publish: Enqueue, drain: Callable[[], None]) -> None:
    publish(2)
    drain()
    assert done(app, WatchAction("pause", BILLING)) == "orders/billing is paused; p resumes it"
    assert billing(app).paused
    done(app, WatchAction("resume", BILLING))
    assert not billing(app).paused


def test_the_dead_letters_of_one_queue_are_replayed(
    app: App, enqueue: Enqueue, drain: Callable[[], None]
) -> None:
    for number in range(5):
        enqueue("shop.mail", str(number))
    enqueue("shop.refuse")
    drain()
    assert done(app, WatchAction("replay", Place("mails"), 5)) == "5 dead letters of mails replayed"
    assert (mails(app).queued, mails(app).dead) == (5, 0)
    assert sum(queue.dead for queue in app.sync.admin.queues()) == 1  # those of other queues stay


def test_those_of_a_group_go_to_that_group(app: App, publish: Enqueue, drain: Callable[[], None]) -> None:
    publish(3)
    drain()
    assert done(app, WatchAction("replay", BILLING, 1)) == "1 dead letter of orders/billing replayed"
    [dead] = app.sync.admin.dead()
    assert dead.group == "audit"


def test_what_stays_dead_is_said(app: App, enqueue: Enqueue, drain: Callable[[], None]) -> None:
    enqueue("shop.mail", "ada", unique_key="one")
    drain()
    enqueue("shop.mail", "bob", unique_key="one")
    said = done(app, WatchAction("replay", Place("mails"), 1))
    assert said == "0 dead letters of mails replayed; 1 stay dead: other jobs hold their unique keys by now"
