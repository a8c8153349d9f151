"""Secrets in the history."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/history/masking.py",
    why="Passwords among the arguments stay in the store after their job has ended.",
    before="""
        plain: Any = msgspec.msgpack.decode(payload, ext_hook=masked)
        return _encode(plain)
    """,
    after="""
        return payload
    """,
    tests=("tests/unit/behaviour/jobs/test_history.py::test_secrets_are_stored_masked",),
)
