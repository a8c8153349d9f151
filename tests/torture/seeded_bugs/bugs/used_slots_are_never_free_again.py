"""Used slots are never free again."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/intake/slotted_reader.py",
    why="A queue that has used its slots waits until the next look of the worker, though a slot is free.",
    before="""
            self.wake()  # ends the claim that does not ask these queues
    """,
    after="""
            pass  # ends the claim that does not ask these queues
    """,
    tests=(
        "tests/unit/behaviour/jobs/test_queue_settings.py::test_a_worker_with_used_slots_is_woken_when_one_is_free",
    ),
)
