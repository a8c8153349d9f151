"""At most as many messages that count for one limit run at once as the limit allows.

A run counts while it holds its lease. So it counts until a fault hits its process or the store. It does not
count at all when such a fault was shortly before it: its process may have lost it before it began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.torture.explanations import AFTERMATH, end_of
from tests.torture.history import History, MessageStory, RunSpan


def check(history: History) -> Iterator[tuple[str, str]]:
    for limit, counted in _counted(history).items():
        running: list[tuple[float, MessageStory]] = []
        for story, run, end in sorted(counted, key=lambda each: each[1].begin):
            running = [each for each in running if each[0] > run.begin]
            running.append((end, story))
            if len(running) > story.plan.most:
                others = ", ".join(each[1].name for each in running[:-1])
                yield story.name, f"ran beside {others}, where {limit} allows {story.plan.most} at once"


def _counted(history: History) -> dict[str, list[tuple[MessageStory, RunSpan, float]]]:
    """For each limit its runs that count, and until when."""
    found: dict[str, list[tuple[MessageStory, RunSpan, float]]] = defaultdict(list)
    for story in history.stories():
        for run in story.runs_of("") if story.plan.limit else ():
            end = _counts_until(history, run)
            if end > run.begin:
                found[story.plan.limit].append((story, run, end))
    return found


def _counts_until(history: History, run: RunSpan) -> float:
    since = run.begin - AFTERMATH * history.lease
    end = end_of(history, run)
    hits = [fault for fault in history.faults_between(since, end) if fault.hits(run.process)]
    return min([end, *[fault.begin for fault in hits]])
