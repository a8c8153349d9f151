"""The rules of the checker over hours: a message is checked when it has come to its end, and forgotten some
time later. So the memory that this takes does not depend on how long a run is.

A message that runs after it was forgotten is one that was never sent, for the rules: a late repeat is found.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path
from typing import Final

from tests.torture.checker import Broken, all_rules, told
from tests.torture.facts import Fact, LogReader, Plan
from tests.torture.history import History, MessageStory
from tests.torture.program import RESULT_TIMEOUT
from tests.torture.rules.no_unexplained_repeat import repeats
from tests.torture.rules.schedules_keep_time import wrong_number

#: Seconds without news after which a message that came to its end is checked. Readers of results wait.
SETTLED: Final = RESULT_TIMEOUT + 20.0

#: Seconds for which a message is kept beyond that: what happened beside it explains others.
BESIDE: Final = 120.0

#: Seconds after which a message of which it is not known whether it was stored will not run any more.
ABANDONED: Final = 300.0

#: Seconds of a bar in the picture of the rate.
BUCKET: Final = 10

#: The rule that needs the whole run: the jobs of schedules are counted for it.
SCHEDULES: Final = "schedules_keep_time"

#: Facts about the run as a whole. They are few, and all rules need them.
LASTING: Final = ("fault_begun", "fault_ended", "gone", "group", "schedule", "left", "drained")


class WindowChecker:
    """Checks the logs of a folder while they grow."""

    def __init__(self, folder: Path, *, lease: float, seed: str) -> None:
        self.broken: list[Broken] = []
        self.counts: Counter[str] = Counter()
        self.rates: Counter[int] = Counter()  #: runs that ended, in each ten seconds of the monotonic clock
        self.faults: list[tuple[float, float, str]] = []  #: begin, end, name
        self.held = 0  #: facts that are kept now
        self._reader = LogReader(folder, removes=True)
        self._lease = lease
        self._seed = seed
        self._facts: list[Fact] = []
        self._checked: set[str] = set()  # of those that are still kept
        self._cut = 0.0  # what ended before this time is forgotten
        self._schedules: dict[str, Schedule] = defaultdict(Schedule)
        self._began = 0.0

    def check(self, now: float, *, last: bool = False) -> Iterator[str]:
        """Check what has come to its end, or, at the `last` time, everything. Gives what to print."""
        new = list(self._reader.new())
        self._count_rates(new)
        self._facts += new
        history = History(self._facts, lease=self._lease, since=self._cut)
        self._began = self._began or (history.facts[0].wall if history.facts else 0.0)
        closed = {
            story.name
            for story in history.stories()
            if story.name not in self._checked and (last or _is_closed(history, story, now))
        }
        found = [each for each in _broken_rules(history) if self._is_new(each, closed)]
        self._checked |= closed
        self._count(history, closed)
        if last:
            found += [Broken(SCHEDULES, "", why) for why in self._wrong_schedules(history)]
        self.broken += found
        if found:
            yield from told(history, found, self._seed)
        self._forget(history, now - SETTLED - BESIDE)

    def _is_new(self, broken: Broken, closed: set[str]) -> bool:
        return broken.message in closed if broken.message else broken not in self.broken

    def _forget(self, history: History, cut: float) -> None:
        gone = {name for name in self._checked if history.messages[name].facts[-1].at < cut}
        self._checked -= gone
        self._facts = [
            fact
            for fact in history.facts
            if fact.kind in LASTING
            or (name not in gone if (name := history.name_of(fact)) else fact.at >= cut)
        ]
        self._cut = cut
        self.held = len(self._facts)

    def _count_rates(self, new: Iterable[Fact]) -> None:
        self.rates.update(int(fact.at) // BUCKET * BUCKET for fact in new if fact.kind == "ended")

    def _count(self, history: History, closed: set[str]) -> None:
        part = History((fact for fact in history.facts if fact.kind in LASTING), lease=self._lease)
        part.messages = {name: history.messages[name] for name in closed}
        self.faults = [
            (fault.begin, fault.end, fault.name) for fault in history.faults if fault.end < float("inf")
        ]
        for story in part.stories():
            self._count_story(story)
        for fault in repeats(part):
            self.counts["repeats explained" if fault else "repeats unexplained"] += 1

    def _count_story(self, story: MessageStory) -> None:
        plan, count = story.plan, self.counts
        count["events" if plan.topic else "jobs"] += story.is_promised
        count["jobs of schedules"] += bool(plan.schedule)
        count["sends uncertain"] += story.uncertain is not None
        count["sends refused"] += story.refused is not None
        count["runs"] += sum(map(len, story.runs.values()))
        count["retries"] += sum(run.failed for runs in story.runs.values() for run in runs)
        count["results read"] += len(story.results)
        count["foreign results"] += sum(fact.value != story.name for fact in story.results)
        count["dead letters"] += len(story.dead)
        if plan.schedule and story.runs_of(""):
            self._schedules[plan.schedule].add(plan, story.runs_of("")[0].started.wall)

    def _wrong_schedules(self, history: History) -> Iterator[str]:
        """As the rule says, from counts: the jobs of a schedule are forgotten like all others."""
        for name, schedule in self._schedules.items():
            last = history.schedules[name]
            most = ceil((last - self._began) / schedule.plan.every)
            least = ceil((last - schedule.first) / schedule.plan.every) if schedule.plan.catches_up else 0
            yield from (f"schedule {name} {why}" for why in wrong_number(schedule.jobs, least, most))


class Schedule:
    """How many jobs a schedule has had, and when the first one began."""

    def __init__(self) -> None:
        self.plan = Plan()
        self.jobs = 0
        self.first = float("inf")

    def add(self, plan: Plan, began: float) -> None:
        self.plan = plan
        self.jobs += 1
        self.first = min(self.first, began)


def _is_closed(history: History, story: MessageStory, now: float) -> bool:
    """Whether it has come to its end everywhere, and nothing more is heard of it."""
    heard = story.facts[-1].at
    if heard > now - SETTLED:
        return False
    if story.is_promised:
        return all(map(story.is_over_in, history.groups_of(story)))
    answered = story.refused is not None or story.accepted is not None
    if story.runs:
        answered = all(map(story.is_over_in, story.runs))
    return answered or heard < now - ABANDONED


def _broken_rules(history: History) -> Iterator[Broken]:
    for rule, check in all_rules().items():
        if rule != SCHEDULES:
            yield from (Broken(rule, *found) for found in check(history))
