"""A schedule enqueues one job for each of its times: never two, and none is left out where it catches up. The
first time is after the first process started, and before the first job began."""

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
    forgot = any(fault.loses for fault in history.faults)
    for name, stories in fired.items():
        if name not in history.schedules:
            continue
        plan = stories[0].plan
        last, first_job = history.schedules[name], min(story.runs_of("")[0].started.wall for story in stories)
        most = ceil((last - history.facts[0].wall) / plan.every)
        least = ceil((last - first_job) / plan.every)
        if len(stories) > most + MARGIN:
            yield "", f"schedule {name} has {len(stories)} jobs for at most {most} times"
        if plan.catches_up and not forgot and len(stories) < least:
            yield "", f"schedule {name} has {len(stories)} jobs for at least {least} times, and it catches up"
