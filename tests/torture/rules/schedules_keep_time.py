"""A schedule enqueues one job for each of its times: never two, and none is left out where it catches up. The
first time is after the first process started, and before the first job began. A clock that is set ahead
brings the times that it leaves out; one that is set back and ahead again brings times twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import ceil

from tests.torture.history import History, MessageStory

#: A time that is due when the first process starts counts too.
MARGIN = 1


def check(history: History) -> Iterator[tuple[str, str]]:
    fired: dict[str, list[MessageStory]] = defaultdict(list)
    for story in history.stories():
        if story.plan.schedule and story.runs_of(""):
            fired[story.plan.schedule].append(story)
    forgot = any(fault.loses or fault.ahead for fault in history.faults)
    for name, stories in fired.items():
        if name not in history.schedules:
            continue
        plan, last = stories[0].plan, history.schedules[name]
        # The clock of a worker may have been set. All have the same monotonic clock.
        begin = history.facts[0]
        first_job = begin.wall - begin.at + min(story.runs_of("")[0].started.at for story in stories)
        most = ceil((last - begin.wall) / plan.every)
        most += ceil(sum(fault.ahead for fault in history.faults) / plan.every)
        least = ceil((last - first_job) / plan.every) if plan.catches_up and not forgot else 0
        yield from (("", f"schedule {name} {why}") for why in wrong_number(len(stories), least, most))


def wrong_number(jobs: int, least: int, most: int) -> Iterator[str]:
    """Why so many jobs of a schedule are too many, or too few."""
    if jobs > most + MARGIN:
        yield f"has {jobs} jobs for at most {most} times"
    if jobs < least:
        yield f"has {jobs} jobs for at least {least} times, and it catches up"
