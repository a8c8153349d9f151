"""Crash limit one too high."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/memory/streams/stream_state.py",
    why="A job that kills its worker is run once more than the limit says.",
    before="""
        elif state.crashes >= crash_limit:
    """,
    after="""
        elif state.crashes > crash_limit:
    """,
    tests=(
        contract("test_reclaim", "test_at_the_crash_limit_a_message_is_dead_without_running", "memory"),
        contract("test_reclaim", "test_crashes_of_child_processes_count_towards_the_limit", "memory"),
    ),
)
