"""The figures of a campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import quantiles

from .campaign import RoundResult
from .explanations import end_of, of_a_cut_run, of_a_loss
from .history import History
from .rules.no_unexplained_repeat import repeats


class Figures:
    """Sums over the rounds of a campaign."""

    def __init__(self, results: Iterable[RoundResult] = ()) -> None:
        self.count: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.repeats: Counter[str] = Counter()
        self.recovery: dict[str, list[float]] = {}
        for result in results:
            self.add(result)

    def add(self, result: RoundResult) -> None:
        history = result.history
        self.count["rounds"] += 1
        self.faults.update(fault.name for fault in history.faults)
        self.broken.update(each.rule for each in result.broken)
        for story in history.stories():
            kind = "events" if story.plan.topic else "jobs"
            self.count[kind] += story.is_promised
            self.count["uncertain"] += story.uncertain is not None
            self.count["runs"] += sum(map(len, story.runs.values()))
            self.count["results read"] += len(story.results)
            self.count["dead"] += len(story.dead)
            if story.is_promised:
                missing = [group for group in history.groups_of(story) if not story.is_over_in(group)]
                for group in missing:
                    self.count["lost with the store" if of_a_loss(history, story, group) else "lost"] += 1
        for _, fault in repeats(history):
            self.count["repeats explained" if fault else "repeats unexplained"] += 1
            self.repeats[fault.name if fault else ""] += 1
        self.count["foreign results"] += sum(
            fact.value != story.name for story in history.stories() for fact in story.results
        )
        for name, seconds in recoveries(history):
            self.recovery.setdefault(name, []).append(seconds)

    def lines(self) -> Iterator[str]:
        for name, number in self.count.items():
            yield f"{name:<24} {number}"
        yield ""
        heads = f"{'fault':<30} {'times':>6} {'repeats':>8} {'cut off':>8}"
        yield f"{heads} {'again p50':>10} {'p99':>8} {'max':>8}"
        for name, times in sorted(self.faults.items()):
            found = self.recovery.get(name, [])
            yield f"{name:<30} {times:>6} {self.repeats[name]:>8} {len(found):>8} {_percentiles(found)}"
        for rule, number in self.broken.items():
            yield f"BROKEN {rule}: {number}"


def recoveries(history: History) -> Iterator[tuple[str, float]]:
    """Of each run that a fault cut off: the fault, and the seconds until the message ran again."""
    for story in history.stories():
        for runs in story.runs.values():
            for first, second in pairwise(runs):
                cut = first.ended is None or first.ended.value == "interrupted"
                if cut and (fault := of_a_cut_run(history, first)):
                    yield fault.name, max(0.0, second.begin - end_of(history, first))


def _percentiles(seconds: list[float]) -> str:
    if not seconds:
        return f"{'-':>10} {'-':>8} {'-':>8}"
    parts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return f"{parts[49]:>10.2f} {parts[98]:>8.2f} {max(seconds):>8.2f}"
