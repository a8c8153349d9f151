"""Result moved to another job."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="core/messages/associated_data.py",
    why=(
        "With a key of their own codec, users accept the signed result of one job as the result of another."
    ),
    before="""
        return _encode(("result", id, task))
    """,
    after="""
        return _encode(("result", task))
    """,
    tests=("tests/unit/behaviour/test_bound_codecs.py::test_a_result_belongs_to_its_job[SignedCodec]",),
)
