"""Answers of callers mixed up."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/producing/producer.py",
    why="Callers whose jobs were sent together get each other's answers.",
    before="""
        position = _answer_each(parts[:half], answers, 0)
    """,
    after="""
        position = _answer_each(parts[:half], answers, 0) * 0
    """,
    tests=(
        "tests/unit/engine/producing/test_producer_at_once.py::test_while_the_store_is_at_work_for_some_of_a_crowd_others_send_theirs",
        "tests/unit/engine/producing/test_producer_at_once.py::test_requests_of_any_size_are_answered_each_in_its_order[0]",
    ),
)
