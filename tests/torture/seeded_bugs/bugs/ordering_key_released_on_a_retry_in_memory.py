"""Ordering key released on a retry in memory."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/memory/streams/stream_state.py",
    why="While an event of an ordered group waits for its retry, later events of its key run.",
    before="""
        status = _RETRYING if isinstance(outcome, Retry) else _SCHEDULED
        self._schedule(entry, status, now_us + outcome.delay_us, now_us)
    """,
    after="""
        status = _RETRYING if isinstance(outcome, Retry) else _SCHEDULED
        self._schedule(entry, status, now_us + outcome.delay_us, now_us)
        self._part(entry, now_us)
    """,
    tests=(
        contract(
            "test_group_order", "test_an_event_that_waits_to_run_again_keeps_its_key", "memory-outcome0"
        ),
    ),
)
