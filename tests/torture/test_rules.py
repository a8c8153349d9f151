"""Every rule of the checker: a good history passes, and a history that breaks one rule is caught by it."""

from __future__ import annotations

from typing import Any

import pytest

from .checker import all_rules, broken_rules, told
from .facts import STORE, Fact, Kind, Plan
from .history import History


class Story:
    """A made-up history. Each fact happens when the test says."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def add(self, at: float, kind: Kind, process: str = "worker-1", **fields: Any) -> Story:
        seq = len(self.facts)
        wall = fields.pop("wall", 1000.0 + at)
        self.facts.append(Fact(kind=kind, at=at, wall=wall, process=process, seq=seq, **fields))
        return self

    def sent(self, at: float, message: str = "a", **plan: Any) -> Story:
        self.add(at, "invoked", "producer-1", message=message, plan=Plan(**plan))
        return self.add(at + 0.1, "accepted", "producer-1", message=message, job=f"job-{message}")

    def ran(
        self,
        begin: float,
        end: float | None = None,
        how: str = "ok",
        *,
        message: str = "a",
        process: str = "worker-1",
        group: str = "",
        attempt: int = 1,
        job: str | None = None,
        deadline: float = 0.0,
    ) -> Story:
        run = f"{process}/{len(self.facts)}"
        named = {"message": message, "run": run, "group": group}
        job = f"job-{message}" if job is None else job
        self.add(begin, "started", process, attempt=attempt, job=job, deadline=deadline, **named)
        if end is not None:
            self.add(end, "ended", process, value=how, **named)
        return self

    def fault(self, begin: float, end: float, *targets: str, name: str = "kill", **kind: float) -> Story:
        run = f"fault-{len(self.facts)}"
        self.add(begin, "fault_begun", "campaign", run=run, value=name, targets=targets, **kind)
        return self.add(end, "fault_ended", "campaign", run=run, value=name)

    def broken(self) -> set[str]:
        return {each.rule for each in broken_rules(History(self.facts, lease=1.0))}


def good() -> Story:
    return Story().sent(1.0).ran(2.0, 3.0)


def events() -> Story:
    """Two ordered groups and one other; each handles two events of one key."""
    story = Story()
    groups = ("ordered-x", "ordered-y", "batch")
    for group in groups:
        story.add(0.0, "group", group=group, value="orders")
    for position, name in enumerate(("e1", "e2")):
        story.sent(1.0 + position, name, topic="orders", key="k", position=position)
        for group in groups:
            story.ran(2.0 + position, 2.5 + position, message=name, group=group)
    return story


def limited(*spans: tuple[float, float], most: int = 2) -> Story:
    """Jobs that count for one limit, each on a worker of its own."""
    story = Story()
    for number, span in enumerate(spans):
        name, process = f"limited-{number}", f"worker-{number}"
        story.sent(1.0, name, limit="three", most=most).ran(*span, message=name, process=process)
    return story


def ticks(*times: float, catches_up: bool = False) -> Story:
    """Jobs of a schedule, one each second."""
    story = Story()
    for number, at in enumerate(times):
        name, plan = f"tick-{number}", Plan(schedule="tick", every=1.0, catches_up=catches_up)
        story.add(at, "invoked", message=name, plan=plan).ran(at, at + 0.01, message=name)
    return story.add(times[-1] + 0.5, "schedule", "campaign", value="tick", due=1000.0 + times[-1])


GOOD: dict[str, Story] = {
    "one run": good(),
    "killed and run again": good()
    .sent(1.0, "b")
    .ran(2.0, message="b")
    .fault(2.5, 3.0, "worker-1")
    .ran(4.0, 5.0, message="b", process="worker-2", attempt=2),
    "paused, run elsewhere, and ended late": Story()
    .sent(1.0)
    .ran(2.0, 9.0)
    .fault(2.5, 8.0, "worker-1", name="stop")
    .ran(4.0, 5.0, process="worker-2", attempt=2),
    "settled during an outage, and run again": Story()
    .sent(1.0)
    .ran(2.0, 3.0)
    .fault(2.5, 4.0, STORE)
    .ran(5.0, 6.0),
    "failed twice, then succeeded": Story()
    .sent(1.0, attempts=3, fails=2)
    .ran(2.0, 2.1, "failed")
    .ran(2.2, 2.3, "failed", attempt=2)
    .ran(2.4, 2.5, attempt=3),
    "failed too often, and is dead": Story()
    .sent(1.0, attempts=1, fails=1)
    .ran(2.0, 2.1, "failed")
    .add(2.2, "dead", message="a", value="exhausted"),
    "failed, and held meanwhile by a worker whose loop is blocked": Story()
    .sent(1.0, attempts=3, fails=1)
    .fault(1.5, 4.0, name="loop-blocked-2-leases")
    .ran(2.0, 2.1, "failed")
    .ran(4.5, 4.6, process="worker-2", attempt=3),
    "timed out twice before its handler began, on a busy machine": Story()
    .sent(1.0, attempts=4)
    .ran(4.0, 4.1, "failed", attempt=2, deadline=4.8)
    .ran(7.0, 7.1, attempt=4, deadline=7.8),
    "interrupted by its timeout, and is dead": Story()
    .sent(1.0, attempts=1, fails=1)
    .fault(1.9, 4.0, "worker-1", name="worker-terminated", gentle=True)
    .ran(2.0, 2.79, "interrupted", deadline=2.79)
    .add(2.8, "dead", message="a", value="exhausted"),
    "delayed": Story().sent(1.0, delay=2.0).ran(3.2, 3.3),
    "delayed, and the clock was set ahead": Story()
    .sent(1.0, delay=60.0)
    .fault(2.0, 4.0, name="clock", ahead=60.0)
    .ran(2.5, 2.6),
    "cancelled before it ran": Story().sent(1.0).add(1.5, "cancelled", "producer-1", message="a"),
    "refused": Story()
    .add(1.0, "invoked", "producer-1", message="a", plan=Plan())
    .add(1.1, "refused", "producer-1", message="a", value="QueueFull"),
    "uncertain, and it ran": Story()
    .add(1.0, "invoked", "producer-1", message="a", plan=Plan())
    .add(1.1, "uncertain", "producer-1", message="a")
    .ran(2.0, 3.0),
    "lost with the store": Story().sent(1.0).fault(2.0, 3.0, STORE, name="flushall", loses=True),
    "its own result": Story().sent(1.0, result=True).ran(2.0, 3.0).add(3.1, "result", message="a", value="a"),
    "a duplicate of its key": Story()
    .sent(1.0, "a", unique="k")
    .add(1.2, "invoked", "producer-1", message="b", plan=Plan(unique="k"))
    .add(1.3, "accepted", "producer-1", message="b", job="job-a", duplicate=True)
    .ran(2.0, 3.0),
    "a process that ends when it is asked to": good().add(9.0, "gone", "worker-1", value="0"),
    "a process that a fault ends": good()
    .fault(8.0, 8.5, "worker-1")
    .add(8.1, "gone", "worker-1", value="-9"),
    "events": events(),
    "as many at once as the limit allows": limited((2.0, 3.0), (2.5, 3.5), (3.1, 4.0), (3.6, 4.5)),
    "one that lost its lease beside others": limited((2.0, 9.0), (4.0, 5.0), (4.1, 5.0)).fault(
        2.5, 8.0, "worker-0", name="worker-paused"
    ),
    "jobs of a key": Story()
    .sent(1.0, "a", task="charge", key="k", position=1, fails=1, attempts=2)
    .sent(1.1, "b", task="charge", key="k", position=2)
    .ran(2.0, 2.1, "failed")
    .ran(2.2, 2.3, attempt=2)
    .ran(2.4, 2.5, message="b"),
    "dead beside a poison job, that took three workers with it": Story()
    .sent(1.0)
    .fault(1.5, 9.0, "workers", name="poison")
    .ran(2.0)
    .ran(4.0, process="worker-2", attempt=2)
    .ran(6.0, process="worker-3", attempt=3)
    .add(9.5, "dead", message="a", value="crashed: 3 times"),
    "dead beside a poison job, that took a worker which held it and had not begun": Story()
    .sent(1.0)
    .fault(1.5, 9.0, "workers", name="poison")
    .ran(2.0)
    .add(3.0, "gone", "worker-1", value="9")
    .ran(4.0, process="worker-2", attempt=2)
    .add(5.0, "gone", "worker-2", value="9")
    .add(7.0, "gone", "worker-3", value="9")
    .add(9.5, "dead", message="a", value="crashed: 3 times"),
    "a schedule": ticks(0.0, 1.0, 2.01, 3.0, catches_up=True),
    "a schedule that leaves some out": ticks(0.0, 1.0, 9.0),
    "a schedule with a job on a worker whose clock is an hour behind": ticks(0.0, 1.0, catches_up=True)
    .add(2.0, "invoked", message="tick-2", plan=Plan(schedule="tick", every=1.0, catches_up=True))
    .add(2.0, "started", message="tick-2", run="worker-1/tick-2", wall=-2600.0)
    .add(2.1, "ended", message="tick-2", run="worker-1/tick-2", value="ok")
    .add(2.5, "schedule", "campaign", value="tick", due=1002.0),
    "a job of a schedule that was cut off unseen, and the next worker began late": Story()
    .fault(2.0, 2.1, "worker-1")
    .add(9.0, "invoked", "worker-2", message="tick-0", plan=Plan(schedule="tick", every=1.0, attempts=2))
    .ran(9.0, 9.1, message="tick-0", process="worker-2", attempt=2),
    "replayed": events()
    .add(6.0, "replayed", group="batch")
    .ran(7.0, 7.5, message="e1", group="batch")
    .ran(7.6, 7.9, message="e2", group="batch"),
    "interrupted by a gentle fault": Story()
    .sent(1.0)
    .ran(2.0, 3.0, "interrupted")
    .fault(2.5, 3.0, "worker-1", gentle=True)
    .ran(4.0, 5.0, process="worker-2"),
    "a thread that ends after the grace of its worker": Story()
    .sent(1.0)
    .fault(2.0, 3.2, "worker-1", name="worker-terminated", gentle=True)
    .ran(1.5, 3.1)
    .ran(4.0, 5.0, process="worker-2"),
    "an outage explains a stall": Story()
    .sent(1.0)
    .ran(1.5, 2.0)
    .sent(2.0, "b")
    .fault(2.1, 40.0, STORE)
    .ran(41.0, 42.0, message="b"),
}

BROKEN: list[tuple[str, Story]] = [
    ("nothing_lost", Story().sent(1.0)),
    ("nothing_lost", Story().sent(1.0).ran(2.0).fault(2.5, 3.0, "worker-1")),
    ("nothing_lost", Story().sent(4.0).fault(2.0, 3.0, STORE, name="flushall", loses=True)),
    ("nothing_invented", Story().ran(2.0, 3.0)),
    ("nothing_invented", Story().sent(1.0).ran(2.0, 3.0).ran(4.0, 5.0, job="job-other")),
    (
        "nothing_invented",
        Story()
        .add(1.0, "invoked", "producer-1", message="a", plan=Plan())
        .add(1.1, "refused", "producer-1", message="a", value="QueueFull")
        .ran(2.0, 3.0),
    ),
    ("no_unexplained_repeat", good().ran(4.0, 5.0)),
    ("no_unexplained_repeat", good().fault(2.5, 2.6, "worker-7").ran(4.0, 5.0)),
    ("no_unexplained_repeat", good().fault(20.0, 21.0, "worker-1").ran(30.0, 31.0, process="worker-2")),
    ("no_unexplained_repeat", good().fault(2.5, 2.6, "worker-1", gentle=True).ran(4.0, 5.0)),
    ("no_overlap", Story().sent(1.0).ran(2.0, 5.0).ran(3.0, 4.0, process="worker-2")),
    (
        "own_result",
        good().sent(1.0, "b").ran(2.0, 3.0, message="b").add(4.0, "result", message="a", value="b"),
    ),
    ("own_result", good().add(2.5, "result", message="a", value="a")),
    (
        "attempts_within_limits",
        Story().sent(1.0).ran(2.0, 2.1, "failed").ran(2.2, 2.3, "failed", attempt=2).ran(3.0, 4.0, attempt=3),
    ),
    ("attempts_within_limits", Story().sent(1.0).ran(2.0, 3.0, attempt=9)),
    ("never_early", Story().sent(1.0, delay=2.0).ran(2.5, 2.6)),
    (
        "order_kept",
        events()
        .sent(3.0, "e0", topic="orders", key="k", position=-1)
        .ran(6.0, 6.1, message="e0", group="ordered-x"),
    ),
    (
        "order_kept",
        Story()
        .sent(1.0, "a", task="charge", key="k", position=1)
        .sent(1.1, "b", task="charge", key="k", position=2)
        .ran(2.0, 2.5, message="b")
        .ran(2.6, 3.0),
    ),
    ("counted_runs_within_limits", limited((2.0, 3.0), (2.5, 3.5), (2.9, 4.0))),
    (
        "counted_runs_within_limits",
        limited((2.0, 3.0), (9.0, 9.9), (9.1, 9.2), most=1).fault(2.5, 3.0, STORE),
    ),
    ("every_group_sees_every_event", events().add(0.0, "group", group="late", value="orders")),
    ("readers_are_woken", good().add(19.0, "unread", "producer-1", message="a")),
    ("nobody_ends_unasked", good().add(9.0, "gone", "worker-1", value="1")),
    ("schedules_keep_time", ticks(0.0, 1.0, 1.1, 2.0, 2.1, 3.0)),
    ("schedules_keep_time", ticks(0.0, 1.0, 6.0, catches_up=True)),
    (
        "attempts_count_up",
        Story()
        .sent(1.0)
        .ran(2.0, 3.0, "interrupted")
        .fault(2.5, 3.0, "worker-1", gentle=True)
        .ran(4.0, 5.0, process="worker-2", attempt=2),
    ),
    ("attempts_count_up", Story().sent(1.0).ran(2.0, 3.0, attempt=2)),
    ("attempts_count_up", Story().sent(1.0, attempts=4).ran(1.5, 1.6, attempt=2, deadline=2.3)),
    ("attempts_count_up", Story().sent(1.0, attempts=4).ran(2.0, 2.1, attempt=3, deadline=2.8)),
    (
        "attempts_count_up",
        Story().sent(1.0, attempts=2).ran(2.0, 2.8, "interrupted", deadline=2.8).ran(4.0, 5.0),
    ),
    ("attempts_count_up", Story().sent(1.0, attempts=3).ran(2.0, 2.1, "failed").ran(3.0, 4.0)),
    ("attempts_count_up", Story().sent(1.0, attempts=3).ran(2.0, 2.1, "snoozed").ran(3.0, 4.0, attempt=2)),
    ("no_strange_errors", good().add(2.5, "strange", message="a", value="AttributeError: when")),
    ("nothing_left", good().add(9.0, "left", "campaign", value="queue default: 1 running")),
    ("stalls_bounded", Story().sent(1.0).ran(1.5, 2.0).sent(2.0, "b").ran(41.0, 42.0, message="b")),
    (
        "cancelled_stays_cancelled",
        Story().sent(1.0).add(1.5, "cancelled", "producer-1", message="a").ran(9.0, 10.0),
    ),
    ("dead_for_a_reason", Story().sent(1.0).add(2.0, "dead", message="a", value="exhausted")),
    ("dead_for_a_reason", Story().sent(1.0).ran(2.0).add(4.0, "dead", message="a", value="crashed")),
    (
        "dead_for_a_reason",
        Story()
        .sent(1.0, attempts=1, fails=1)
        .fault(1.9, 4.0, "worker-1", name="worker-terminated", gentle=True)
        .ran(2.0, 2.5, "interrupted", deadline=2.8)
        .add(2.6, "dead", message="a", value="exhausted"),
    ),
    (
        "unique_is_unique",
        Story()
        .sent(1.0, "a", unique="k")
        .sent(1.5, "b", unique="k")
        .ran(2.0, 3.0)
        .ran(2.0, 3.0, message="b"),
    ),
    (
        "unique_is_unique",
        good()
        .add(1.2, "invoked", "producer-1", message="b", plan=Plan(unique="k"))
        .add(1.3, "accepted", "producer-1", message="b", job="job-a", duplicate=True),
    ),
]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_passes_every_rule(name: str) -> None:
    assert GOOD[name].broken() == set()


@pytest.mark.parametrize(("rule", "story"), BROKEN)
def test_a_broken_history_is_caught(rule: str, story: Story) -> None:
    assert rule in story.broken()


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert {rule for rule, _ in BROKEN} == set(all_rules())


def test_what_is_broken_is_told_with_its_history_and_the_seed() -> None:
    history = History(good().fault(2.5, 2.6, "worker-7").ran(4.0, 5.0).facts, lease=1.0)
    text = "\n".join(told(history, broken_rules(history), "17"))
    assert "seed 17" in text
    assert text.count(" started ") == 2
    assert " fault_begun " in text
