"""The parts of the soak: the checker that forgets, the trend, the census, the verdict and the picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from tests.torture.facts import FACTS_OF_A_FILE, Fact, Kind, LogReader, Plan, Recorder
from tests.torture.faults import all_faults

from .arm import FAULTS
from .census import grown
from .outcome import ArmOutcome, FaultTime, Findings, SoakOutcome
from .picture import picture
from .samples import Sample
from .trend import Point, leaks, slope
from .windows import BESIDE, SETTLED, WindowChecker

#: After this time a message that ended is forgotten.
FORGOTTEN = SETTLED + BESIDE + 10.0


class Log:
    """A log of made-up facts. Each happens when the test says."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "made-1-0.jsonl"
        self.checker = WindowChecker(folder, lease=1.0, seed="1")

    def add(self, at: float, kind: Kind, process: str = "worker-1", **fields: Any) -> Log:
        fact = Fact(kind=kind, at=at, wall=1000.0 + at, process=process, seq=1, **fields)
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(fact) + b"\n")
        return self

    def sent(self, at: float, message: str, **plan: Any) -> Log:
        self.add(at, "invoked", "producer-1", message=message, plan=Plan(**plan))
        return self.add(at + 0.1, "accepted", "producer-1", message=message, job=f"job-{message}")

    def ran(self, at: float, message: str, *, ends: bool = True) -> Log:
        run = f"run-{message}-{at}"
        self.add(at, "started", message=message, job=f"job-{message}", run=run, attempt=1)
        if ends:
            self.add(at + 0.1, "ended", message=message, run=run, value="ok")
        return self

    def broken(self, now: float, *, last: bool = False) -> set[str]:
        list(self.checker.check(now, last=last))
        return {each.rule for each in self.checker.broken}


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_a_message_that_ended_is_checked_counted_and_forgotten(log: Log) -> None:
    log.sent(1.0, "a").ran(2.0, "a")
    assert log.broken(FORGOTTEN) == set()
    assert log.checker.counts["jobs"] == log.checker.counts["runs"] == 1
    assert log.checker.held == 0


def test_a_message_that_has_not_ended_is_kept_and_lost_only_at_the_end(log: Log) -> None:
    log.sent(1.0, "a").ran(2.0, "a", ends=False)
    assert log.broken(FORGOTTEN) == set()
    assert log.checker.held == 3
    assert "nothing_lost" in log.broken(FORGOTTEN, last=True)


def test_a_repeat_is_found_before_and_after_its_message_is_forgotten(log: Log) -> None:
    log.sent(1.0, "a").ran(2.0, "a").ran(50.0, "a").sent(1.0, "b").ran(2.0, "b")
    assert log.broken(FORGOTTEN) == {"no_unexplained_repeat"}
    log.ran(FORGOTTEN, "b")
    assert "nothing_invented" in log.broken(2 * FORGOTTEN)


def test_a_broken_message_is_told_once(log: Log) -> None:
    log.sent(1.0, "a").ran(2.0, "a").ran(50.0, "a")
    for now in (SETTLED + 60.0, SETTLED + 70.0, FORGOTTEN):
        log.broken(now)
    assert len(log.checker.broken) == 1


def test_a_message_that_waited_while_forgotten_ones_ran_shows_no_stall(log: Log) -> None:
    log.sent(1.0, "late")
    for second in range(2, int(FORGOTTEN)):
        log.sent(second, f"b{second}").ran(second + 0.2, f"b{second}")
    log.ran(FORGOTTEN, "late")
    assert log.broken(FORGOTTEN + 60.0) == set()
    assert log.broken(3 * FORGOTTEN) == set()


def test_a_stall_is_found(log: Log) -> None:
    log.sent(1.0, "a").ran(2.0, "a").sent(3.0, "b").ran(50.0, "b")
    assert log.broken(FORGOTTEN) == {"stalls_bounded"}


def test_jobs_of_schedules_are_counted_over_the_whole_run(log: Log) -> None:
    for second in range(int(2 * FORGOTTEN)):
        name = f"tick-{second}"
        log.add(second, "invoked", message=name, plan=Plan(schedule="tick", every=1.0, catches_up=True))
        if second != 40:
            log.ran(second, name)
        if second % 50 == 0:
            assert log.broken(float(second)) == set()
    log.add(2 * FORGOTTEN, "schedule", value="tick", due=1000.0 + 2 * FORGOTTEN)
    assert log.broken(4 * FORGOTTEN) == set()
    assert log.broken(4 * FORGOTTEN, last=True) == {"schedules_keep_time"}


def test_files_of_a_log_are_removed_when_they_are_read(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "worker-1")
    reader = LogReader(tmp_path, removes=True)
    for _ in range(2 * FACTS_OF_A_FILE + 1):
        recorder.write("lost")
    assert sum(1 for _ in reader.new()) == 2 * FACTS_OF_A_FILE + 1
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    recorder.write("lost")
    assert sum(1 for _ in reader.new()) == 1


def _memory(growth: float) -> Iterator[Point]:
    """An hour of samples with noise and peaks, which grow by so many bytes."""
    random = Random(1)
    for second in range(0, 3600, 10):
        peak = 5e6 if random.random() < 0.05 else 0.0
        yield Point(float(second), 50e6 + growth * second / 3600 + random.gauss(0, 2e5) + peak)


def test_a_slope_is_found_under_noise_and_peaks() -> None:
    assert abs(slope(_memory(0.0))) < 1e5
    assert slope(_memory(2e6)) == pytest.approx(2e6, abs=2e5)


def test_a_number_leaks_when_its_least_is_above_what_was_its_most() -> None:
    assert not leaks([Point(float(at), 20.0 + at % 7) for at in range(100)])
    assert leaks([Point(float(at), 20.0 + at % 3 + at / 10) for at in range(100)])


def test_a_census_tells_what_there_is_more_of() -> None:
    assert grown({"a": 1, "b": 5}, {"a": 1, "b": 4}) == []
    assert grown({"a": 1}, {"a": 2, "b": 1}) == ["a: 1 before, 2 after", "b: 0 before, 1 after"]


def _findings(growth: float, *, left: list[str], broken: list[str], threads: int = 0) -> Findings:
    """`threads`: how many more there are at the end."""
    faults = [FaultTime("worker-killed", 60.0, 61.0)]
    arm = ArmOutcome(
        "sqlite", 0.0, 3600.0, 60.0, ("worker-1",), {"jobs": 1}, faults, [(5.0, 60.0)], left, broken
    )
    samples = [
        Sample("sqlite", point.at, "worker", "worker-1", rss=int(point.value), threads=more, descriptors=9)
        for point in _memory(growth)
        for more in [25 + round(threads * point.at / 3600)]
    ]
    return Findings(SoakOutcome(seed="1", hours=1.0, day="today", arms=[arm]), samples)


@pytest.mark.parametrize(
    ("growth", "left", "broken"),
    [(3e6, [], []), (0.0, ["a row"], []), (0.0, [], ["nothing_lost: a: never came to an end"])],
)
def test_growth_or_something_left_or_a_broken_rule_makes_a_soak_bad(
    growth: float, left: list[str], broken: list[str]
) -> None:
    assert _findings(0.0, left=[], broken=[]).good
    assert not _findings(growth, left=left, broken=broken).good


def test_a_pool_of_threads_that_fills_up_is_no_leak_and_more_threads_are() -> None:
    assert _findings(0.0, left=[], broken=[], threads=8).good
    assert not _findings(0.0, left=[], broken=[], threads=20).good


def test_a_picture_has_each_fault_and_the_memory_of_each_worker() -> None:
    drawn = ElementTree.fromstring(picture(_findings(0.0, left=[], broken=[])))
    names = [element.tag.rpartition("}")[2] for element in drawn.iter()]
    assert names.count("circle") == 1
    assert names.count("polyline") == 2


def test_the_faults_of_a_soak_need_nothing_of_their_own() -> None:
    """The last of the needs is a workload: that of the soak has what the others have."""
    chosen = [all_faults()[name] for name in FAULTS]
    assert {fault.needs[:-1] for fault in chosen} == {all_faults()["worker-killed"].needs[:-1]}
