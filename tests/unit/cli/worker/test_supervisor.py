"""Several worker processes as one, with a shell script in the place of the interpreter that runs workers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from headrace.cli.worker import supervisor as supervisor_module
from headrace.cli.worker.supervisor import FIRST_PAUSE, LONGEST_PAUSE, Supervisor, WorkerProcess
from tests.support.waiting import wait_until_sync

#: Runs the script in as many processes; the exit code of all.
Run: TypeAlias = Callable[..., int]


@pytest.fixture(autouse=True)
def signals_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The working folder of the scripts is empty at first, and theirs alone."""
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(script: str, processes: int = 1, *, burst: bool = False, arguments: tuple[str, ...] = ()) -> int:
        interpreter = tmp_path / "interpreter"
        interpreter.write_text(f"#!/bin/sh\n{script}\n")
        interpreter.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(interpreter))
        return Supervisor("shop:app", processes, burst=burst, arguments=list(arguments)).run()

    return run


def stopped_when(condition: Callable[[], bool]) -> threading.Thread:
    """Send SIGTERM to this process, whose main thread is the supervisor, once the condition is true."""

    def stop() -> None:
        wait_until_sync(condition)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop)
    thread.start()
    return thread


def test_children_are_workers_of_the_same_app(run: Run) -> None:
    script = 'echo "$@" >arguments-$HEADRACE_PROCESS_NUMBER'
    assert run(script, 2, burst=True, arguments=("--processes", "1")) == 0
    found = {path.name: path.read_text() for path in Path().iterdir()}
    assert found == dict.fromkeys(
        ["arguments-1", "arguments-2"], "-m headrace worker shop:app --processes 1\n"
    )


def test_wrong_usage_of_one_child_ends_them_all(run: Run) -> None:
    assert run("test $HEADRACE_PROCESS_NUMBER = 2 || exit 2; exec sleep 60", 2) == 2


def test_a_child_that_dies_is_replaced(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "FIRST_PAUSE", 0.01)
    # The first life leaves a mark and dies, the second finds it and is content.
    assert run("test -e mark || { touch mark; exit 1; }", burst=True) == 0


def test_a_stop_is_passed_on_to_the_children(run: Run) -> None:
    stopping = stopped_when(Path("ready").exists)
    assert run("trap 'touch stopped; exit 0' TERM; touch ready; while :; do sleep 0.01; done") == 0
    stopping.join()
    assert Path("stopped").exists()


@pytest.mark.parametrize(("end", "code"), [("TERM", 0), ("KILL", 1)])
def test_a_child_that_a_stop_ends_before_it_is_ready_did_no_wrong(run: Run, end: str, code: int) -> None:
    stopping = stopped_when(Path("ready").exists)
    script = f"trap 'trap - TERM; kill -{end} $$' TERM; touch ready; while :; do sleep 0.01; done"
    assert run(script) == code
    stopping.join()


def test_a_stop_that_comes_while_children_are_being_started_reaches_them_all(run: Run) -> None:
    assert run("test $HEADRACE_PROCESS_NUMBER != 1 || kill -TERM $PPID; exec sleep 60", 3) == 0


def test_the_pause_before_a_child_is_replaced_doubles_up_to_a_limit() -> None:
    child = WorkerProcess(1, ["true"])
    child.start()
    pauses = [child.died() for _ in range(10)]
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    assert child.process is not None
    child.process.wait(10)


def test_a_child_that_has_proved_itself_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    child = WorkerProcess(1, ["true"])
    child.start()
    assert child.died() < child.died()
    monkeypatch.setattr(supervisor_module, "PROVEN", 0.0)
    assert child.died() == FIRST_PAUSE
    assert child.process is not None
    child.process.wait(10)
