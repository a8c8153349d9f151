"""Old key refused after a rotation."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="core/crypto/keys.py",
    why="After a key was replaced, jobs that were signed with the old key go to the dead letters.",
    before="""
        self._by_id = {key.id: key for key in read}
    """,
    after="""
        self._by_id = {key.id: key for key in read[:1]}
    """,
    tests=("tests/unit/core/test_crypto.py::test_the_first_key_is_used[SignedCodec]",),
)
