"""Nothing runs early: a delayed message does not start before its delay has passed since it was sent. The
store adds the delay later than that, on its own clock. When that is set ahead meanwhile, so much less has to
pass."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History

#: Seconds by which clocks of one machine may differ when they are read in milliseconds.
GRAIN = 0.002


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        if not story.invoked or not story.plan.delay:
            continue
        for runs in story.runs.values():
            begin = min(run.begin for run in runs)
            ahead = sum(fault.ahead for fault in history.faults_between(story.invoked.at, begin))
            early = story.invoked.at + story.plan.delay - ahead - begin
            if early > GRAIN:
                yield story.name, f"ran {early:.3f} s early"
