"""Bytes change sides in a signature."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="core/crypto/signed.py",
    why="Bytes can move between a payload and what it is bound to, and the signature still fits.",
    before="""
        return len(associated).to_bytes(4, "big") + associated + payload
    """,
    after="""
        return associated + payload
    """,
    tests=(
        "tests/unit/core/test_crypto.py::test_no_byte_moves_from_a_signed_payload_to_what_it_is_bound_to",
    ),
)
