"""Key of an ordered job passed on at a retry."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import Round, SeededBug, contract

BUG = SeededBug(
    file="stores/sql/change_set.py",
    why="While an ordered job waits for its retry, later jobs of its key run.",
    before="""
        self.moves.append(Move(subject, place, due_us, lane_of(state, subject.priority), state))
        self._count(subject, place)
    """,
    after="""
        self.moves.append(Move(subject, place, due_us, lane_of(state, subject.priority), state))
        if subject.order_key is not None:
            ended = EndedMessage(subject.stream, subject.number, subject.order_key, subject.id)
            self.passed_on_jobs.append(ended)
        self._count(subject, place)
    """,
    tests=(
        contract("test_ordered_jobs", "test_a_retry_in_the_future_keeps_its_place", "sqlite"),
        contract("test_limit_machine", "test_a_store_keeps_limits_as_the_model_does", "sqlite-few"),
    ),
    rounds=(Round("sqlite", "limits", "worker-killed"),),
)
