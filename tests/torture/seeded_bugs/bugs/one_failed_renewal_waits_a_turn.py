"""One failed renewal waits a turn."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/upkeep/lease_renewal.py",
    why="After a renewal that failed, the next try comes a whole turn later.",
    before="""
        pause = min(pause, backoff(self._failures))
    """,
    after="""
        pause = max(pause, backoff(self._failures))
    """,
    tests=(
        "tests/unit/engine/upkeep/test_lease_renewal.py::test_what_could_not_be_renewed_at_once_is_tried_again_before_it_is_due",
    ),
)
