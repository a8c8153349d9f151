"""Failed start costs a child."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/children/pool.py",
    why="After one child could not be started, the pool takes no more work.",
    before="""
                    self._starts.discard(this)
                    self._children.add(child)
                    self._settle(child)
                    return
        finally:
            self._failing = False
    """,
    after="""
                    self._starts.discard(this)
                    self._children.add(child)
                    self._settle(child)
                    return
        finally:
            self._failing = self._failing and tries > 0
    """,
    tests=(
        "tests/integration/processes/test_children.py::test_a_child_that_cannot_be_started_is_started_later",
    ),
)
