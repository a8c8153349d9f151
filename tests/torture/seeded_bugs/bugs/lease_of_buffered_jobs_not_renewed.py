"""Lease of buffered jobs not renewed."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/upkeep/lease_renewal.py",
    why=(
        "Jobs that wait behind slow ones in a worker, or whose outcome is not written yet, are taken from it."
    ),
    before="""
        claims = self._held.older_than(0.0 if urgent else self._interval)
    """,
    after="""
        claims = self._held.older_than(0.0 if urgent else self._interval)
        claims = [claim for claim in claims if claim in self._held.running]
    """,
    tests=(
        "tests/unit/engine/upkeep/test_lease_renewal.py::test_what_is_held_is_renewed_until_it_is_let_go",
        "tests/unit/engine/upkeep/test_lease_renewal.py::test_renewing_goes_on_while_the_event_loop_is_blocked",
    ),
)
