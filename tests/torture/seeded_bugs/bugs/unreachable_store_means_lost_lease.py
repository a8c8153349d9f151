"""Unreachable store means lost lease."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/upkeep/lease_renewal.py",
    why="While one node of a store cannot be reached, the worker gives up jobs that nobody has taken.",
    before="""
        if renewal is not Renewal.KEPT and renewal is not Renewal.UNKNOWN
    """,
    after="""
        if renewal is not Renewal.KEPT
    """,
    tests=(
        "tests/unit/engine/upkeep/test_lease_renewal.py::test_where_renewals_are_refused_they_are_tried_again_soon_and_told_of_as_an_outage",
    ),
)
