"""Queue forgets its running jobs."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/intake/slotted_reader.py",
    why="A queue takes more slots of a worker than it may: its running jobs do not count.",
    before="""
        for claims in (self._held.running, self._slots.ready):
    """,
    after="""
        for claims in (self._slots.ready,):
    """,
    tests=("tests/unit/behaviour/jobs/test_queue_settings.py::test_a_queue_uses_its_slots_and_no_more",),
)
