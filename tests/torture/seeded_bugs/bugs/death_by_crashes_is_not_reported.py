"""Death by crashes is not reported."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/worker/plan.py",
    why="A job that kills its workers dies in silence, though its queue has a task for deaths.",
    before="""
        in_store=in_store | dict.fromkeys(calling, NO_LIMIT),
    """,
    after="""
        in_store=in_store,
    """,
    tests=(
        "tests/unit/behaviour/jobs/test_on_dead.py::test_the_store_leaves_deaths_by_crashes_to_the_workers",
    ),
)
