"""No process ends by itself: a worker or a producer ends with 0 when it is asked to, and otherwise only by a
fault."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History


def check(history: History) -> Iterator[tuple[str, str]]:
    for fact in history.facts:
        if fact.kind != "gone" or fact.value == "0":
            continue
        if not any(fault.hits_process(fact.process) for fault in history.faults_between(0.0, fact.at)):
            yield "", f"{fact.process} ended with {fact.value}, and no fault had hit it"
