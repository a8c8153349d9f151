"""What a soak found, and the verdict. It is kept in a file: page and picture can be made from it again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from .arm import SLOTS, Arm
from .samples import Sample, read_samples
from .trend import HOUR, MINUTE, Point, by_the_minute, leaks, slope
from .windows import BUCKET

#: By how many bytes a worker may grow in an hour.
GROWTH: Final = 1_000_000

#: The part of a run that is its warm-up, and the most seconds that it takes. In that time the pool of threads
#: reaches its size, and the connections of SQLite fill their page caches, which have 2 MB each.
WARM_UP_PART: Final = 0.4
WARM_UP: Final = 30 * MINUTE

#: Seconds of a process after the warm-up that show whether it grows.
MEASURED: Final = 30 * MINUTE

#: Threads that a worker may have: one for each slot, and its own. A worker may need the last of them only in
#: a crowd that comes late in a run, so up to this number more threads are no leak.
THREADS: Final = SLOTS + 5

SAMPLES: Final = "samples.jsonl"
OUTCOME: Final = "outcome.json"

Measure = Literal["rss", "threads", "descriptors", "size"]


class FaultTime(msgspec.Struct, frozen=True):
    """A fault, in seconds since its arm began."""

    name: str
    begin: float
    end: float


class ArmOutcome(msgspec.Struct, frozen=True):
    """What one arm did. Times are in seconds since it began."""

    store: str
    began: float
    seconds: float
    rate: float
    spared: tuple[str, ...]
    counts: dict[str, int]
    faults: list[FaultTime]
    rates: list[tuple[float, float]]  # runs in a second
    left: list[str]
    broken: list[str]

    @property
    def warm(self) -> float:
        return min(WARM_UP, self.seconds * WARM_UP_PART)


class Verdict(msgspec.Struct, frozen=True):
    """One line: what must hold, the figure, and whether it holds. None: the run is too short to say."""

    store: str
    what: str
    figure: str
    good: bool | None


class SoakOutcome(msgspec.Struct, frozen=True):
    seed: str
    hours: float
    day: str
    arms: list[ArmOutcome]


def arm_outcome(arm: Arm, error: BaseException | None) -> ArmOutcome:
    began, ended, checker = arm.began, arm.ended or time.monotonic(), arm.checker
    broken = [f"{each.rule}: {each.message or 'the run'}: {each.why}" for each in checker.broken]
    return ArmOutcome(
        store=arm.plan.store,
        began=began,
        seconds=ended - began,
        rate=arm.plan.rate,
        spared=arm.spared,
        counts=dict(checker.counts),
        faults=[FaultTime(name, begin - began, end - began) for begin, end, name in checker.faults],
        rates=[
            (at - began, runs / BUCKET)
            for at, runs in sorted(checker.rates.items())
            if began < at < ended - BUCKET
        ],
        left=arm.left,
        broken=[*broken, *([f"unfinished: {error!r}"] if error else [])],
    )


class Findings:
    """The figures of an outcome and its samples."""

    def __init__(self, outcome: SoakOutcome, samples: list[Sample]) -> None:
        self.outcome = outcome
        self._samples = samples

    @classmethod
    def read(cls, folder: Path) -> Findings:
        outcome = msgspec.json.decode((folder / OUTCOME).read_bytes(), type=SoakOutcome)
        return cls(outcome, read_samples(folder / SAMPLES))

    @property
    def good(self) -> bool:
        return all(verdict.good is not False for verdict in self.verdicts())

    def series(self, arm: ArmOutcome, role: str, measure: Measure) -> dict[str, list[Point]]:
        """A measure of each process of this role while the load was on, in seconds since the arm began."""
        found: dict[str, list[Point]] = {}
        for sample in self._samples:
            at = sample.at - arm.began
            if sample.arm == arm.store and sample.role == role and 0 <= at <= arm.seconds:
                found.setdefault(sample.process, []).append(Point(at, getattr(sample, measure)))
        return found

    def verdicts(self) -> Iterator[Verdict]:
        for arm in self.outcome.arms:
            yield self._rules(arm)
            for role in ("worker", "child"):
                yield from self._memory(arm, role)
            yield from self._numbers(arm)
            left = "; ".join(arm.left) or "as after a run of a minute"
            yield Verdict(arm.store, "the store returns to its baseline", left, not arm.left)

    def _rules(self, arm: ArmOutcome) -> Verdict:
        kinds = Counter(each.partition(":")[0] for each in arm.broken)
        figure = ", ".join(f"{rule} {number} times" for rule, number in kinds.items()) or "0 broken"
        return Verdict(arm.store, "the rules of the checker hold", figure, not arm.broken)

    def _memory(self, arm: ArmOutcome, role: str) -> Iterator[Verdict]:
        """The memory of processes that lived long enough. A process that starts later warms up later."""
        for process, points in self.series(arm, role, "rss").items():
            after = [point for point in points if point.at >= points[0].at + arm.warm]
            spared = process in arm.spared
            if not after or (not spared and after[-1].at - after[0].at < MEASURED):
                continue
            grows = slope(after)
            long_enough = after[-1].at - after[0].at >= MEASURED
            minutes = by_the_minute(after)
            figure = (
                f"{grows / 1e6:+.2f} MB/h ({minutes[0].value / 1e6:.1f} MB after the warm-up, "
                f"{minutes[-1].value / 1e6:.1f} MB at the end)"
            )
            what = f"memory of {process} grows by at most {GROWTH / 1e6:g} MB/h"
            yield Verdict(arm.store, what, figure, grows <= GROWTH if long_enough else None)

    def _numbers(self, arm: ArmOutcome) -> Iterator[Verdict]:
        for role in ("worker", "producer"):
            for process in self.series(arm, role, "threads"):
                if process in arm.spared:
                    yield self._number(arm, role, process, "threads", "threads")
                    yield self._number(arm, role, process, "descriptors", "file descriptors")

    def _number(self, arm: ArmOutcome, role: str, process: str, measure: Measure, words: str) -> Verdict:
        after = [point for point in self.series(arm, role, measure)[process] if point.at >= arm.warm]
        values = [int(point.value) for point in after] or [0]
        figure = f"{min(values)} to {max(values)} after the warm-up, {values[-1]} at the end"
        # A pool of threads grows for a while: a short run shows nothing.
        long_enough = after and after[-1].at - after[0].at >= MEASURED
        is_pool = role == "worker" and measure == "threads" and max(values) <= THREADS
        good = (is_pool or not leaks(after)) if long_enough else None
        return Verdict(arm.store, f"{process} leaks no {words}", figure, good)


def average_rate(arm: ArmOutcome) -> float:
    return arm.counts.get("runs", 0) / arm.seconds if arm.seconds else 0.0


def hours(seconds: float) -> str:
    return f"{seconds / HOUR:.2f} h"
