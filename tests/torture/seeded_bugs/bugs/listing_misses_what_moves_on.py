"""Listing misses what moves on."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="core/records/listing.py",
    why="A job that begins to run between two pages of a listing is on neither.",
    before="""
        ListingPart("q", JobStatus.QUEUED, late=True),
        ListingPart("x", JobStatus.RUNNING, late=True),
    """,
    after="""
        ListingPart("q", JobStatus.QUEUED, late=True),
    """,
    tests=(contract("test_inspector", "test_what_moves_on_between_two_pages_is_not_missed", "sqlite-start"),),
)
