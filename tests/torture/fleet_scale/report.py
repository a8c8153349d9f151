"""The figures of the scale of a fleet: on the terminal, and as a page."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from math import ceil
from typing import Final

import msgspec

from .slowlog import PROMOTION, RECLAIM, NamedWindow, Window, Work

#: The share of a core that reclaim and promotion may take together, and the microseconds of a script.
UPKEEP_SHARE: Final = 0.02
SCRIPT_TIME: Final = 5000
SCRIPT_PART: Final = 0.999

#: How many scripts are listed for each window.
LISTED: Final = 8

HEAD: Final = """\
# The scale of a fleet

300 workers with 100 slots each ran on one server, and then one worker with 500 queues. The workers are real:
each has its own app and connections. A few processes run them. This page shows what they cost the server, and
how soon the jobs of workers that die run again. The harness is `tests/torture/fleet_scale`. It wrote this
page after its last run.

"""

WORDS: Final = """\
- **core**: the processor time of the server, as a share of one core.
- **reclaim**: the share of the time in which scripts looked for the jobs of dead workers, and took them back.
- **promotion**: the same for scripts that queue what is due.
- **scripts**: how long the scripts ran, as the server measures it. While one runs, no other client is served.
- **waits**: the time from when a job was due until it began. *Traffic* is 200 jobs in a second. 50 of them
  are delayed.
- **again**: the time from the death of workers until their jobs run again. A lease is 15 s. The workers are
  killed with their process.

The workers are on the machine of the server. The server has a higher priority than they have. Still, when
other programs use the machine, a script may wait for a core. This time counts as time of the script. The
times of scripts by name are from a second window, in which the slow log of the server takes every command.

"""


class Death(msgspec.Struct):
    """Workers that died at once, and the seconds until each of their jobs began again."""

    workers: int
    times: list[float]


class Measured(msgspec.Struct):
    """One window. `waits`: seconds from when each job of the traffic was due until it began."""

    name: str
    window: Window
    by_name: NamedWindow | None = None
    waits: list[float] = []
    death: Death | None = None


class Report:
    def __init__(self, server: str, measured: list[Measured], load: float) -> None:
        """`load`: the load average of the machine before the run."""
        self._server = server
        self._load = load
        self._measured = measured

    @property
    def good(self) -> bool:
        return all(good for *_, good in self._bars())

    def lines(self) -> Iterator[str]:
        for row in self._windows():
            yield "  ".join(f"{cell:>12}" if number else f"{cell:<50}" for number, cell in enumerate(row))
        for row in self._deaths():
            yield "  ".join(f"{cell:>10}" for cell in row)
        for measured in self._measured:
            yield f"{measured.name}:"
            for row in _scripts(measured.by_name):
                yield "  ".join(f"{cell:>12}" for cell in row)
        for what, figure, good in self._bars():
            yield f"{'good' if good else 'BROKEN':<8} {what}: {figure}"

    def page(self) -> str:
        machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
        lines = [
            *HEAD.splitlines(),
            f"Command: `python -m tests.torture.fleet_scale`. Server: {self._server}. Machine: {machine}.",
            f"Load of the machine when the run began: {self._load:.1f}.",
            "",
            *WORDS.splitlines(),
            *_table([("bar", "figure", "verdict"), *self._verdicts()]),
            "",
            *_table(self._windows()),
            "",
            *_table(self._deaths()),
        ]
        for measured in self._measured:
            if measured.by_name is not None:
                lines += ["", f"## {measured.name}", "", *_table(_scripts(measured.by_name))]
        return "\n".join(lines) + "\n"

    def _bars(self) -> Iterator[tuple[str, str, bool]]:
        for measured in self._measured:
            if measured.by_name is None:
                continue
            share = measured.by_name.share(RECLAIM | PROMOTION)
            what = f"{measured.name}: reclaim and promotion take at most {UPKEEP_SHARE:.0%} of a core"
            yield what, f"{share:.2%}", share <= UPKEEP_SHARE
        for measured in self._measured:
            took = measured.window.p999
            what = f"{measured.name}: p99.9 of scripts is under {SCRIPT_TIME / 1000:g} ms"
            yield what, f"{took / 1000:.2f} ms", took < SCRIPT_TIME

    def _verdicts(self) -> Iterator[tuple[str, ...]]:
        for what, figure, good in self._bars():
            yield what, figure, "good" if good else "BROKEN"

    def _windows(self) -> Iterator[tuple[str, ...]]:
        yield (
            "window",
            "commands/s",
            "core",
            "reclaim",
            "promotion",
            "scripts p50",
            "scripts p99.9",
            "waits p50",
            "waits p99",
        )
        for measured in self._measured:
            window = measured.window
            yield (
                measured.name,
                f"{window.commands / window.seconds:.0f}",
                f"{window.core:.1%}",
                *(
                    f"{measured.by_name.share(names):.2%}" if measured.by_name else "-"
                    for names in (RECLAIM, PROMOTION)
                ),
                f"{window.median / 1000:.2f} ms",
                f"{window.p999 / 1000:.2f} ms",
                _percentile(measured.waits, 0.5),
                _percentile(measured.waits, 0.99),
            )

    def _deaths(self) -> Iterator[tuple[str, ...]]:
        yield "workers that die", "jobs", "again p50", "again p99", "again max"
        for measured in self._measured:
            if measured.death is not None:
                times = measured.death.times
                parts = (_percentile(times, part) for part in (0.5, 0.99, 1.0))
                yield (str(measured.death.workers), str(len(times)), *parts)


def _scripts(window: NamedWindow | None) -> Iterator[tuple[str, ...]]:
    if window is None:
        return
    yield "script", "calls/s", "core", "p50", "p99.9", "max"
    for work in window.work[:LISTED]:
        yield _script(work, window)


def _script(work: Work, window: NamedWindow) -> tuple[str, ...]:
    parts = (f"{work.percentile(part)} µs" for part in (0.5, SCRIPT_PART, 1.0))
    share = work.total / window.seconds / 1e6
    return work.name, f"{len(work.times) / window.seconds:.1f}", f"{share:.2%}", *parts


def _percentile(seconds: list[float], part: float) -> str:
    return f"{sorted(seconds)[ceil(part * len(seconds)) - 1]:.2f} s" if seconds else "-"


def _table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield "| " + " | ".join(row) + " |"
        if not number:
            yield "| --- |" + " ---: |" * (len(row) - 1)
