"""Turn of recovery moves on."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="stores/redis/upkeep/scan_turns.py",
    why=(
        "In a fleet of hundreds, the turn to look for jobs of dead workers goes to a new worker each time, "
        "and no worker looks."
    ),
    before="""
        KEPT_SHARE = 1.25
    """,
    after="""
        KEPT_SHARE = 0.9
    """,
    tests=(
        "tests/integration/redis/test_backend.py::test_the_turn_stays_with_its_worker_however_many_others_ask[valkey-9.1]",
    ),
)
