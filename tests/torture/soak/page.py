"""The page of the documentation about the last soak. Nothing in it is written by hand."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterator

from .outcome import ArmOutcome, Findings, Verdict, average_rate, hours

HEAD = """\
# The soak

A steady load with rare faults ran for a long time, on a server and on SQLite side by side. Jobs of every kind
ran, with retries, delays, results, schedules, threads and child processes, and events in ordered, plain and
batch groups and fan-outs. The harness is `tests/torture/soak`. It wrote this page after its last run.

"""

WORDS = """\
One worker and one producer of each store live through the whole run, while faults end others and interrupt
the store. Their memory is what the system reports as resident. Its growth is the median of the slopes between
the medians of each minute, after the warm-up. The store is compared with another store of its kind after a
run of a minute: rows, keys, elements of each key, and consumers. A number leaks when its least in the last
quarter of the time is above its most in the first quarter, after the warm-up. A worker has 30 slots. It
starts up to 30 threads for plain functions, each when it is needed. So only more than 35 threads can be a
leak. `machine-busy` is no fault: other programs used the machine, and the harness had to wait for a core.

"""


def page(findings: Findings, *, picture: str) -> str:
    return "\n".join(_lines(findings, picture)) + "\n"


def lines(findings: Findings) -> Iterator[str]:
    """For the terminal."""
    for verdict in findings.verdicts():
        yield f"{_state(verdict):<10} {verdict.store:<12} {verdict.what}: {verdict.figure}"
    for arm in findings.outcome.arms:
        counts = ", ".join(f"{name} {number}" for name, number in sorted(arm.counts.items()))
        yield f"{arm.store}: {hours(arm.seconds)}, {len(arm.faults)} faults, {counts}"
    yield "The soak is good." if findings.good else "The soak found faults."


def _lines(findings: Findings, picture: str) -> Iterator[str]:
    outcome = findings.outcome
    yield from HEAD.splitlines()
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    yield f"Command: `make soak HOURS={outcome.hours:g}`. Seed: `{outcome.seed}`. Day: {outcome.day}."
    yield f"Machine: {machine}."
    yield ""
    yield f"![Memory, rate and faults over time]({picture})"
    yield ""
    yield from WORDS.splitlines()
    yield "| store | what must hold | figure | verdict |"
    yield "| --- | --- | --- | --- |"
    for verdict in findings.verdicts():
        yield f"| {verdict.store} | {verdict.what} | {verdict.figure} | {_state(verdict)} |"
    yield ""
    yield from _counts(outcome.arms)
    yield ""
    yield from _faults(outcome.arms)


def _counts(arms: list[ArmOutcome]) -> Iterator[str]:
    yield "| measure |" + "".join(f" {arm.store} |" for arm in arms)
    yield "| --- |" + " ---: |" * len(arms)
    yield "| time |" + "".join(f" {hours(arm.seconds)} |" for arm in arms)
    yield "| runs in a second |" + "".join(f" {average_rate(arm):.0f} |" for arm in arms)
    yield "| faults |" + "".join(f" {len(arm.faults)} |" for arm in arms)
    for name in sorted({name for arm in arms for name in arm.counts}):
        yield f"| {name} |" + "".join(f" {arm.counts.get(name, 0)} |" for arm in arms)


def _faults(arms: list[ArmOutcome]) -> Iterator[str]:
    times = [Counter(fault.name for fault in arm.faults) for arm in arms]
    yield "| fault |" + "".join(f" {arm.store} |" for arm in arms)
    yield "| --- |" + " ---: |" * len(arms)
    for name in sorted({name for each in times for name in each}):
        yield f"| {name} |" + "".join(f" {each[name] or '-'} |" for each in times)


def _state(verdict: Verdict) -> str:
    return {True: "good", False: "BROKEN", None: "too short"}[verdict.good]
