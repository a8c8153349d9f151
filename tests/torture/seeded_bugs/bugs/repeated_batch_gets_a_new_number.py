"""Repeated batch gets a new number."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/producing/producer.py",
    why="A job whose answer was lost is sent again as another batch: it is stored twice.",
    before="""
        lane.error = error
        await asyncio.sleep(pause)
    """,
    after="""
        lane.error = error
        batch = lane.batch(lane.first, batch.messages)
        await asyncio.sleep(pause)
    """,
    tests=(
        "tests/unit/engine/producing/test_producer.py::test_a_lost_answer_is_asked_for_again_under_the_same_number",
    ),
)
