"""Nothing runs early: a delayed message does not start before its delay has passed since it was sent. The
store adds the delay later than that, on its own clock, which is that of this machine."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History

#: Seconds by which clocks of one machine may differ when they are read in milliseconds.
GRAIN = 0.002


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        if not story.invoked or not story.plan.delay:
            continue
        due = story.invoked.wall + story.plan.delay
        for runs in story.runs.values():
            early = due - min(run.started.wall for run in runs)
            if early > GRAIN:
                yield story.name, f"ran {early:.3f} s early"
