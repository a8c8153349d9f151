"""Batch failure under a wrong index ignored."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/batches/batches.py",
    why="A batch handler that names a wrong index loses an event: it counts as handled.",
    before="""
        wrong = [index for index in failed if index not in range(count)]
    """,
    after="""
        wrong = [index for index in failed if index not in range(count + 1)]
    """,
    tests=(
        "tests/unit/behaviour/events/test_batch.py::test_a_result_that_names_what_is_not_in_the_list_is_an_error[1]",
    ),
)
