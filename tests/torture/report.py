"""The figures of a campaign, and how the terminal shows them."""

from __future__ import annotations

import os
import platform
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import quantiles
from typing import NamedTuple

from .campaign import RoundResult
from .checker import all_rules
from .explanations import end_of, of_a_cut_run, of_a_loss
from .facts import STORE
from .history import History, MessageStory
from .rounds import DEFAULT_LEASE
from .rules.no_unexplained_repeat import repeats
from .stores import family_of

#: Faults after which a server is up again, and the one that leaves connections half-open.
RESTARTS = ("server-killed", "server-restarted")
HALF_OPEN = "link-half-open"

#: Messages that were in a store which a fault erased.
ERASED = "erased"

#: How many rules the checker has.
RULES = len(all_rules())

HEADS = ("fault", "times", "duplicates", "cut off", "again p50", "p99", "max", "resumed p50", "max")

BAR_HEADS = ("measure", "bar", "measured", "of")

STORE_HEADS = (
    "store",
    "rounds",
    "faults",
    "jobs",
    "events",
    "runs",
    "lost",
    "duplicates explained",
    "unexplained",
)

#: The families of stores for which recovery is measured, as the page names them.
MEASURED_STORES = {"sqlite": "SQLite", "redis": "Redis or Valkey", "postgres": "PostgreSQL"}


class Figures:
    """Sums over the rounds of a campaign."""

    def __init__(self, results: Iterable[RoundResult], *, seconds: float) -> None:
        self.count: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.repeats: Counter[str] = Counter()
        self.stores: dict[str, Counter[str]] = defaultdict(Counter)
        self.skipped: dict[str, str] = {}  # kinds of fault that the machine cannot have, and why
        self.recovery: dict[str, Recovery] = defaultdict(Recovery)
        self.seconds = seconds
        self._again: dict[str, list[float]] = defaultdict(list)
        self._resumed: dict[str, list[float]] = defaultdict(list)
        for result in results:
            self.add(result)

    def add(self, result: RoundResult) -> None:
        history = result.history
        before = self.count.copy()
        self.count["rounds"] += 1
        self.count["faults"] += len(history.faults)
        self.faults.update(fault.name for fault in history.faults)
        self.broken.update(each.rule for each in result.broken)
        if result.is_unfinished:
            return  # what has not come to its end there is not lost
        for story in history.stories():
            self._add_story(history, story)
        for fault in repeats(history):
            self.count["repeats explained" if fault else "repeats unexplained"] += 1
            self.repeats[fault.name if fault else ""] += 1
        self.stores[result.plan.store].update(self.count - before)
        if result.plan.lease == DEFAULT_LEASE:
            self.recovery[family_of(result.plan.store)].add(history)
            return  # the other times are those of a short lease
        for name, seconds in recoveries(history):
            self._again[name].append(seconds)
        for name, seconds in resumptions(history):
            self._resumed[name].append(seconds)

    def _add_story(self, history: History, story: MessageStory) -> None:
        self.count["events" if story.plan.topic else "jobs"] += story.is_promised
        self.count["uncertain"] += story.uncertain is not None
        self.count["refused"] += story.refused is not None
        self.count["runs"] += sum(map(len, story.runs.values()))
        self.count["results read"] += len(story.results)
        self.count["foreign results"] += sum(fact.value != story.name for fact in story.results)
        self.count["dead letters"] += len(story.dead)
        if not story.is_promised:
            return
        for group in history.groups_of(story):
            if not story.is_over_in(group):
                explained = of_a_loss(history, story, group) is not None
                self.count[ERASED if explained else "lost"] += 1

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each kind of fault. `again`: seconds until a run that it cut off began again. `resumed`:
        seconds from the end of a fault of the store until the next run began."""
        for name, times in sorted(self.faults.items()):
            again, resumed = self._again[name], self._resumed[name]
            yield (
                name,
                str(times),
                str(self.repeats[name]),
                str(len(again)),
                *_percentiles(again, 50, 99, 100),
                *_percentiles(resumed, 50, 100),
            )

    def store_rows(self) -> Iterator[tuple[str, ...]]:
        names = (
            "rounds",
            "faults",
            "jobs",
            "events",
            "runs",
            "lost",
            "repeats explained",
            "repeats unexplained",
        )
        for store, count in sorted(self.stores.items()):
            yield store, *(grouped(count[name]) for name in names)

    def recovery_rows(self) -> Iterator[tuple[str, ...]]:
        """How long it took on each family of stores."""
        for measure in MEASURES:
            cells = [self.recovery[family].cell(measure) for family in MEASURED_STORES]
            yield measure.words, measure.bar, *cells

    def bars(self) -> Iterator[tuple[str, ...]]:
        """What `make torture` has to show, and what it has shown."""
        count = self.count
        messages = f"{grouped(count['jobs'] + count['events'])} accepted"
        rounds = f"{count['rounds']} rounds"
        yield "accepted messages that were lost", "0", str(count["lost"]), messages
        yield (
            "duplicates that no fault explains",
            "0",
            str(count["repeats unexplained"]),
            f"{grouped(count['runs'])} runs",
        )
        yield (
            "results that belong to another job",
            "0",
            str(count["foreign results"]),
            f"{grouped(count['results read'])} results",
        )
        yield "rules of the checker that were broken", "0", str(sum(self.broken.values())), f"{RULES} rules"
        yield "jobs sent through faults", "≥ 100,000", grouped(count["jobs"]), rounds
        yield "events sent through faults", "≥ 30,000", grouped(count["events"]), rounds
        yield "kinds of fault", "≥ 20", str(len(self.faults)), f"{count['faults']} faults"
        yield "minutes", "≤ 12", f"{self.seconds / 60:.1f}", machine()

    def others(self) -> Iterator[tuple[str, str]]:
        """What is no promise, and worth knowing."""
        count = self.count
        yield "duplicates that a fault explains", grouped(count["repeats explained"])
        yield "messages that went with a store which was erased on purpose", grouped(count[ERASED])
        yield "sends that a producer was not sure of, after a lost reply", grouped(count["uncertain"])
        yield "sends that were refused, and did not run", grouped(count["refused"])
        yield "dead letters, as planned", grouped(count["dead letters"])

    def lines(self) -> Iterator[str]:
        for row in (BAR_HEADS, *self.bars()):
            yield f"{row[0]:<50}{row[1]:>10}{row[2]:>12}   {row[3]}"
        yield ""
        for row in (("recovery", "bar", *MEASURED_STORES.values()), *self.recovery_rows()):
            yield f"{row[0]:<50}{row[1]:>10}" + "".join(f"{cell:>24}" for cell in row[2:])
        yield ""
        for name, number in self.others():
            yield f"{name:<60} {number}"
        yield ""
        for row in (STORE_HEADS, *self.store_rows()):
            yield f"{row[0]:<20}" + "".join(f"{cell:>22}" for cell in row[1:])
        yield ""
        for row in (HEADS, *self.rows()):
            yield f"{row[0]:<30}" + "".join(f"{cell:>12}" for cell in row[1:])
        for rule, times in self.broken.items():
            yield f"BROKEN {rule}: {times}"


def recoveries(history: History) -> Iterator[tuple[str, float]]:
    """For each run that a fault cut off: the fault, and the seconds until the message ran again."""
    for story in history.stories():
        for runs in story.runs.values():
            for first, second in pairwise(runs):
                cut = first.ended is None or (first.ended.value == "interrupted" and not first.failed)
                if cut and (fault := of_a_cut_run(history, first)):
                    yield fault.name, max(0.0, second.begin - end_of(history, first))


def resumptions(history: History) -> Iterator[tuple[str, float]]:
    """For each fault that hit the store: the seconds from its end until the next run began."""
    begins = sorted(run.begin for story in history.stories() for runs in story.runs.values() for run in runs)
    for fault in history.faults:
        place = bisect_left(begins, fault.end)
        if STORE in fault.targets and place < len(begins):
            yield fault.name, begins[place] - fault.end


def noticed(history: History) -> Iterator[float]:
    """For each half-open link and worker: the seconds until the worker began a message that was sent after
    the link had gone silent. So its producer and the worker had both noticed."""
    for fault in history.faults:
        firsts: dict[str, float] = {}
        for story in history.stories():
            if fault.name == HALF_OPEN and story.invoked and story.invoked.at > fault.begin:
                for run in story.runs_of(""):
                    firsts[run.process] = min(firsts.get(run.process, run.begin), run.begin)
        yield from (begin - fault.begin for begin in firsts.values())


class Measure(NamedTuple):
    """How long something took. `percentile`: which of the times must be below the bar; 100: all."""

    words: str
    bar: str
    percentile: int
    unit: str


KILLED = Measure("runs of a worker killed with -9 run again, p99", "≤ 20 s", 99, "runs")
RESTARTED = Measure("runs again after a server's restart, max", "≤ 5 s", 100, "restarts")
HANDED_BACK = Measure("handed back at SIGTERM, and running elsewhere, p99", "< 2 s", 99, "runs")
NOTICED = Measure("half-open connection noticed, max", "≤ 10 s", 100, "workers")
MEASURES = (KILLED, RESTARTED, HANDED_BACK, NOTICED)


class Recovery:
    """How long it takes until all is as before, on one family of stores with the default lease."""

    def __init__(self) -> None:
        self._seconds: dict[Measure, list[float]] = defaultdict(list)

    def add(self, history: History) -> None:
        measures = {"worker-killed": KILLED, "worker-terminated": HANDED_BACK}
        for name, seconds in recoveries(history):
            if name in measures:
                self._seconds[measures[name]].append(seconds)
        self._seconds[RESTARTED] += [seconds for name, seconds in resumptions(history) if name in RESTARTS]
        self._seconds[NOTICED] += noticed(history)

    def cell(self, measure: Measure) -> str:
        seconds = self._seconds[measure]
        if not seconds:
            return "-"
        return f"{_percentiles(seconds, measure.percentile)[0]} s ({len(seconds)} {measure.unit})"


def _percentiles(seconds: list[float], *wanted: int) -> list[str]:
    if not seconds:
        return ["-"] * len(wanted)
    parts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return [f"{[*parts, max(seconds)][each - 1]:.2f}" for each in wanted]


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def grouped(number: int) -> str:
    return f"{number:,}"
