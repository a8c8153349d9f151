"""One bad event fails its batch."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/batches/batches.py",
    why="One event that always fails takes all events of its batch to the dead letters.",
    before="""
        middle = len(runs) // 2
        await self.handle(runs[:middle])
        await self.handle(runs[middle:])
    """,
    after="""
        for run, (outcome, failure) in zip(runs, decided, strict=True):
            self._finish(run, outcome, failure, seconds)
    """,
    tests=(
        "tests/unit/behaviour/events/test_batch.py::test_a_poisonous_event_is_found_and_the_others_live[0]",
        "tests/unit/behaviour/events/test_batch.py::test_unrecoverable_kills_one_and_not_the_list",
    ),
)
