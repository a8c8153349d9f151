"""The figures of a campaign: on the terminal, and as a page."""

from __future__ import annotations

import os
import platform
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import quantiles

from .campaign import RoundResult
from .explanations import end_of, of_a_cut_run, of_a_loss
from .facts import STORE
from .history import History, MessageStory
from .rules.no_unexplained_repeat import repeats

HEADS = ("fault", "times", "repeats", "cut off", "again p50", "p99", "max", "resumed p50", "max")

PAGE_HEAD = """\
# Reliability

Random programs ran on real stores while real processes, servers and links were harmed. A checker compared
what was accepted with what ran. The harness is `tests/torture`. It wrote this page after its last full run.

"""

PAGE_WORDS = """\
A run is *repeated* when it had succeeded and its message ran again. A run is *cut off* when it never ended:
*again* is the time in seconds until its message ran again, with the lease. *Resumed* is the time in seconds
from the end of a fault of the store until the next run began.

"""


class Figures:
    """Sums over the rounds of a campaign."""

    def __init__(self, results: Iterable[RoundResult] = ()) -> None:
        self.count: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.repeats: Counter[str] = Counter()
        self.stores: set[str] = set()
        self.seconds = 0.0
        self._again: dict[str, list[float]] = defaultdict(list)
        self._resumed: dict[str, list[float]] = defaultdict(list)
        for result in results:
            self.add(result)

    def add(self, result: RoundResult) -> None:
        history = result.history
        self.stores.add(result.plan.store)
        self.seconds += result.seconds
        self.count["rounds"] += 1
        self.count["faults"] += len(history.faults)
        self.faults.update(fault.name for fault in history.faults)
        self.broken.update(each.rule for each in result.broken)
        for story in history.stories():
            self._add_story(history, story)
        for fault in repeats(history):
            self.count["repeats explained" if fault else "repeats unexplained"] += 1
            self.repeats[fault.name if fault else ""] += 1
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
                self.count["lost with what the store lost" if explained else "lost"] += 1

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

    def totals(self) -> Iterator[tuple[str, str]]:
        always = ("lost", "repeats explained", "repeats unexplained", "foreign results")
        yield "stores", ", ".join(sorted(self.stores))
        yield "kinds of fault", str(len(self.faults))
        for name in (*(name for name in self.count if name not in always), *always):
            yield name, str(self.count[name])
        yield "rules broken", str(sum(self.broken.values()))

    def lines(self) -> Iterator[str]:
        for name, number in self.totals():
            yield f"{name:<32} {number}"
        yield ""
        for row in (HEADS, *self.rows()):
            yield f"{row[0]:<30}" + "".join(f"{cell:>12}" for cell in row[1:])
        for rule, times in self.broken.items():
            yield f"BROKEN {rule}: {times}"

    def page(self, *, command: str, seed: str) -> str:
        """The page of the documentation. Nothing in it is written by hand."""
        took = f"It took {self.seconds / 60:.0f} minutes on {_machine()}."
        lines = [
            *PAGE_HEAD.splitlines(),
            f"Command: `{command}`. Seed: `{seed}`. {took}",
            "",
            *_table(("measure", "figure"), self.totals()),
            "",
            *PAGE_WORDS.splitlines(),
            *_table(HEADS, self.rows()),
        ]
        return "\n".join(lines) + "\n"


def recoveries(history: History) -> Iterator[tuple[str, float]]:
    """Of each run that a fault cut off: the fault, and the seconds until the message ran again."""
    for story in history.stories():
        for runs in story.runs.values():
            for first, second in pairwise(runs):
                cut = first.ended is None or (first.ended.value == "interrupted" and not first.failed)
                if cut and (fault := of_a_cut_run(history, first)):
                    yield fault.name, max(0.0, second.begin - end_of(history, first))


def resumptions(history: History) -> Iterator[tuple[str, float]]:
    """Of each fault that hit the store: the seconds from its end until the next run began."""
    begins = sorted(run.begin for story in history.stories() for runs in story.runs.values() for run in runs)
    for fault in history.faults:
        place = bisect_left(begins, fault.end)
        if STORE in fault.targets and place < len(begins):
            yield fault.name, begins[place] - fault.end


def _percentiles(seconds: list[float], *wanted: int) -> list[str]:
    if not seconds:
        return ["-"] * len(wanted)
    parts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return [f"{[*parts, max(seconds)][each - 1]:.2f}" for each in wanted]


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [heads, ("---", *["---:"] * (len(heads) - 1)), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]
