"""Cookie accepted after logout."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="dashboard/access/sessions.py",
    why="A cookie that was stolen is accepted after its user has logged out.",
    before="""
        return cookie not in self._ended and 0 < _until(cookie) - time.time() <= LONGEST
    """,
    after="""
        return 0 < _until(cookie) - time.time() <= LONGEST
    """,
    tests=(
        "tests/integration/dashboard/test_attacks.py::test_a_session_that_was_logged_out_cannot_be_used_again[command]",
    ),
)
