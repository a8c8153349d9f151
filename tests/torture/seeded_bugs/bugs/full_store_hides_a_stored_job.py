"""Full store hides a stored job."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/producing/producer.py",
    why=(
        "A job whose answer was lost is reported as refused when the store is full by then, though it "
        "is stored."
    ),
    before="""
        if uncertain:
            _check_room(answers)
    """,
    after="""

    """,
    tests=(
        "tests/unit/engine/producing/test_producer.py::test_a_store_without_room_does_not_say_that_a_repeat_was_not_stored",
    ),
)
