"""Recovery does not look again."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="stores/redis/lua/upkeep/recover.lua",
    why=("A job whose lease is renewed between the look and the recovery is taken from its living worker."),
    before="""
        if not row or row[3] < lease then
          return ''
        end
    """,
    after="""
        if not row then
          return ''
        end
    """,
    tests=(
        "tests/integration/redis/test_backend.py::test_a_lease_that_is_renewed_after_the_look_is_not_taken[valkey-9.1]",
    ),
)
