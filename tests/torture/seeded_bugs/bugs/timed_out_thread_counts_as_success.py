"""Timed out thread counts as success."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/executor.py",
    why=(
        "A plain function that returns after its timeout counts as a success, though its caller was "
        "told otherwise."
    ),
    before="""
        overdue = run.interruption == "timeout" and handler.run_in == "thread"
    """,
    after="""
        overdue = run.interruption == "timeout" and handler.run_in == "process"
    """,
    tests=(
        "tests/unit/behaviour/worker/test_timeouts.py::test_a_thread_keeps_its_slot_until_it_ends_and_then_has_failed",
        "tests/unit/behaviour/worker/test_timeouts.py::test_a_thread_is_not_retried_beside_itself",
    ),
)
