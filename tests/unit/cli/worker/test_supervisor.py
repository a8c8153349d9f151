"""Several worker processes as one, with shell one-liners in the workers' place."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.worker import supervisor as supervisor_module
from headrace.cli.worker.supervisor import FIRST_PAUSE, LONGEST_PAUSE, PROVEN, Supervisor, WorkerProcess
from tests.support.waiting import wait_until_sync


@pytest.fixture(autouse=True)
def signals_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def supervisor(*scripts: str, burst: bool = False) -> Supervisor:
    """A supervisor whose children run these scripts."""
    made = Supervisor("shop:app", 0, burst=burst, arguments=[])
    made._children = [WorkerProcess(number, ["sh", "-c", script]) for number, script in enumerate(scripts, 1)]
    return made


def test_children_are_workers_of_the_same_app() -> None:
    made = Supervisor("shop:app", 2, burst=False, arguments=["--processes", "1"])
    commands = [child._command[1:] for child in made._children]
    assert commands == [["-m", "headrace", "worker", "shop:app", "--processes", "1"]] * 2


def test_a_burst_ends_when_all_children_have(tmp_path: Path) -> None:
    made = supervisor(f"touch {tmp_path}/a", f"touch {tmp_path}/b", burst=True)
    assert made.run() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_wrong_usage_of_one_child_ends_them_all() -> None:
    assert supervisor("exit 2", "sleep 60").run() == 2


def test_a_child_that_dies_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "FIRST_PAUSE", 0.01)
    # The first life leaves a mark and dies, the second finds it and is content.
    script = f"test -e {tmp_path}/mark || {{ touch {tmp_path}/mark; exit 1; }}"
    assert supervisor(script, burst=True).run() == 0


def test_a_stop_is_passed_on_to_the_children(tmp_path: Path) -> None:
    made = supervisor(
        f"trap 'touch {tmp_path}/stopped; exit 0' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done"
    )
    child = made._children[0]
    child.start()
    wait_until_sync((tmp_path / "ready").exists)
    made._pass_on()
    made._children = []
    assert child.process is not None
    assert child.process.wait(10) == 0
    assert (tmp_path / "stopped").exists()


def test_a_child_stopped_while_it_still_started_did_no_wrong() -> None:
    made = supervisor("exit 0")
    (child,) = made._children
    child.start()
    assert child.process is not None
    child.process.wait(10)
    made._stopping = True
    made._ended(child, -signal.SIGTERM)
    assert (child.done, made._exit_code) == (True, 0)
    made._ended(child, -signal.SIGKILL)
    assert made._exit_code == 1


def test_a_stop_that_comes_while_a_child_is_being_started_reaches_it() -> None:
    made = supervisor("sleep 60")
    made._stopping = True
    (child,) = made._children
    made._start(child)
    assert child.process is not None
    assert child.process.wait(10) == -signal.SIGTERM


def test_the_pause_before_a_child_is_replaced_doubles_up_to_a_limit() -> None:
    child = WorkerProcess(1, [])
    child._started_at = time.monotonic()
    pauses = [child.died() for _ in range(10)]
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE


def test_a_child_that_has_proved_itself_begins_anew() -> None:
    child = WorkerProcess(1, [])
    child._started_at = time.monotonic()
    assert child.died() < child.died()
    child._started_at = time.monotonic() - PROVEN - 1
    assert child.died() == FIRST_PAUSE
