"""Arguments moved to another task."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="core/messages/associated_data.py",
    why="The signed arguments of a harmless task are accepted by a dangerous one.",
    before="""
        return _encode(("arguments", id, task, _sorted(headers)))
    """,
    after="""
        return _encode(("arguments", id, _sorted(headers)))
    """,
    tests=("tests/integration/stores/test_tampering.py::test_no_payload_can_be_moved[memory-SignedCodec]",),
)
