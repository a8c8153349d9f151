"""A schedule enqueues one job for each of its times: never two, and none is left out where it catches up. Its
times are whole intervals before the last one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import ceil

from tests.torture.history import History, MessageStory

#: Times by which the count may be wrong: the first job may have begun late, and the last may not have begun.
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
        first = min(story.runs_of("")[0].started.wall for story in stories)
        times = ceil((history.schedules[name] - first) / plan.every) + 1
        if len(stories) > times + MARGIN:
            yield "", f"schedule {name} has {len(stories)} jobs for {times} times"
        if plan.catches_up and not forgot and len(stories) < times - MARGIN:
            yield "", f"schedule {name} has {len(stories)} jobs for {times} times, and it catches up"
