"""Wishes carried out, on a real store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import App
from headrace.cli.place import Place
from headrace.cli.watch import steering
from headrace.cli.watch.panel import Panel, Pause, Replay
from headrace.cli.watch.steering import Steering
from headrace.core.errors import BackendUnavailable

BILLING = Place(None, "orders", "billing")

Enqueue = Callable[..., Any]


def carry_out(app: App, wish: Pause | Replay) -> Panel:
    """The panel afterwards."""
    panel = Panel(app.description)
    app.sync._portal.run(Steering(app, panel).carry_out, wish)
    assert panel.busy == ""
    return panel


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
    assert carry_out(app, Pause(Place("mails"), True)).said == "mails is paused; p lets it go on"
    assert mails(app).paused
    assert carry_out(app, Pause(Place("mails"), False)).said == "mails goes on"
    assert not mails(app).paused


def test_a_group_is_paused_and_goes_on(app: App, publish: Enqueue, drain: Callable[[], None]) -> None:
    publish(2)
    drain()
    assert carry_out(app, Pause(BILLING, True)).said == "orders/billing is paused; p lets it go on"
    assert billing(app).paused
    carry_out(app, Pause(BILLING, False))
    assert not billing(app).paused


def test_dead_letters_are_replayed_in_steps_and_how_far_is_told(
    app: App, enqueue: Enqueue, drain: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        enqueue("shop.mail", str(number))
    enqueue("shop.refuse")
    drain()
    monkeypatch.setattr(steering, "STEP", 2)
    told: list[tuple[str, float]] = []
    replay = app.admin.replay

    async def watched(**which: Any) -> Any:
        told.append((panel.busy, panel.done))
        return await replay(**which)

    monkeypatch.setattr(app.admin, "replay", watched)
    panel = Panel(app.description)
    app.sync._portal.run(Steering(app, panel).carry_out, Replay(Place("mails"), 5))
    assert panel.said == "5 dead letters of mails replayed"
    assert told == [(f"replaying mails: {done} of 5", done / 5) for done in (0, 2, 4)]
    assert (mails(app).queued, mails(app).dead) == (5, 0)
    assert sum(queue.dead for queue in app.sync.admin.queues()) == 1  # those of other queues stay


def test_those_of_a_group_go_to_that_group(app: App, publish: Enqueue, drain: Callable[[], None]) -> None:
    publish(3)
    drain()
    assert carry_out(app, Replay(BILLING, 1)).said == "1 dead letter of orders/billing replayed"
    [dead] = app.sync.admin.dead()
    assert dead.group == "audit"


def test_what_stays_dead_is_said(app: App, enqueue: Enqueue, drain: Callable[[], None]) -> None:
    enqueue("shop.mail", "ada", unique_key="one")
    drain()
    enqueue("shop.mail", "bob", unique_key="one")
    said = carry_out(app, Replay(Place("mails"), 1)).said
    assert said == "0 dead letters of mails replayed; 1 stay dead: other jobs hold their unique keys by now"


def test_a_failure_is_said_and_nothing_is_raised(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(queue: str) -> None:
        raise BackendUnavailable("the store is gone")

    monkeypatch.setattr(app.admin, "pause", gone)
    panel = carry_out(app, Pause(Place("mails"), True))
    assert (panel.said, panel.is_bad) == ("pausing mails: the store is gone", True)
