"""Listener ends the settler."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/emitter.py",
    why="A listener that raises CancelledError ends the service that announces: jobs stay running.",
    before="""
        except BaseException:  # no error of a listener reaches the caller, not even a cancellation
    """,
    after="""
        except Exception:  # no error of a listener reaches the caller, not even a cancellation
    """,
    tests=(
        "tests/unit/behaviour/worker/test_early_exits.py::test_whatever_a_listener_raises_the_worker_goes_on[False-CancelledError]",
    ),
)
