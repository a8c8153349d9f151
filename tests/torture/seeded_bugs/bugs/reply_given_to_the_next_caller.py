"""Reply given to the next caller."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/client/connection.py",
    why=(
        "A caller that was cancelled leaves its reply to the next one: each caller gets the answer of "
        "another."
    ),
    before="""
            request.future.set_result(request.replies)
        elif request.late is not None:
            request.late(request.replies)
    """,
    after="""
            request.future.set_result(request.replies)
        elif request.late is not None:
            request.late(request.replies)
        elif self._requests:
            self._receive(reply)
    """,
    tests=(
        contract("test_concurrency", "test_a_cancelled_look_leaves_its_answer_to_no_other", "valkey-9.1"),
    ),
)
