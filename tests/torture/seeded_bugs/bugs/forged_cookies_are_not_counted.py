"""Forged cookies are not counted."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="dashboard/access/sessions.py",
    why="Passwords are guessed past the limit, with cookies instead of the form.",
    before="""
        self._attempts.count(address)
        self._warn_once()
    """,
    after="""
        self._warn_once()
    """,
    tests=(
        "tests/integration/dashboard/test_attacks.py::test_wrong_sessions_count_as_wrong_passwords[command]",
    ),
)
