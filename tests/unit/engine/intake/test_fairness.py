"""SlotFairness: a reader takes free slots, but leaves one for each of the others that has none."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream, group_stream
from headrace.core.topics.topic import NEW
from headrace.engine.declared.registry import Registry
from headrace.engine.declared.subscription import Subscription, SubscriptionOptions
from headrace.engine.intake.fairness import SlotFairness


class Stand:
    def __init__(self, size: int, *groups: str, with_jobs: bool = False) -> None:
        self.registry = Registry()
        handler: Any = None
        self.subscriptions = [
            Subscription("orders", each, handler, SubscriptionOptions(NEW, max_in_flight=9))
            for each in groups
        ]
        for each in self.subscriptions:
            self.registry.subscriptions.append(each)
        self.running: dict[Claim, Any] = {}
        self.ready: deque[Claim] = deque()
        self.size = size
        self.poked = 0
        self.shares = SlotFairness(
            self,  # type: ignore[arg-type]
            self.running,
            registry=self.registry,
            subscriptions=self.subscriptions,
            with_jobs=with_jobs,
            room_made=self.poke,
        )

    def poke(self) -> None:
        self.poked += 1

    @property
    def waiting(self) -> int:
        return len(self.running) + len(self.ready) - self.size

    @property
    def free(self) -> int:
        return max(0, -self.waiting)

    def run(self, group: str | None, count: int = 1) -> None:
        stream = Stream("queue", "default") if group is None else group_stream("orders", group)
        for _ in range(count):
            self.running[Claim(stream, "id", b"", None, 0)] = SimpleNamespace()

    def room(self, group: str) -> int:
        subscription = next(each for each in self.subscriptions if each.group == group)
        return self.shares.room(group, subscription)

    def promise(self, group: str, slots: int) -> None:
        subscription = next(each for each in self.subscriptions if each.group == group)
        self.shares.promise(group, subscription, slots)


def test_one_alone_has_all() -> None:
    stand = Stand(10, "a")
    assert stand.shares.alone
    assert stand.room("a") == 10


def test_one_is_left_for_each_of_the_others_and_for_jobs() -> None:
    stand = Stand(10, "a", "b", "c", with_jobs=True)
    assert not stand.shares.alone
    assert stand.room("a") == 7
    stand.run("a", 5)
    assert stand.room("a") == 2
    assert stand.room("b") == 5 - 2  # one for c, one for jobs
    stand.run("b")
    stand.run(None)
    assert stand.room("a") == 10 - 7 - 1


def test_what_others_have_asked_for_is_theirs() -> None:
    stand = Stand(10, "a", "b", "c")
    stand.promise("b", 4)
    assert stand.room("a") == 10 - 4 - 1
    assert stand.room("b") == 10 - 2  # its own is not in its way
    stand.shares.received("b")
    assert stand.room("a") == 8
    assert stand.poked == 1  # a reader may have waited for it


def test_with_fewer_slots_than_readers_who_comes_first_has_them() -> None:
    stand = Stand(2, "a", "b", with_jobs=True)
    assert stand.room("a") == 2
    stand.run("a", 2)
    assert stand.room("b") == 0
