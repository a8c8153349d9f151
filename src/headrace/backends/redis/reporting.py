"""How far runs have come, as calls of the script that keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.core.claim import Report
from headrace.core.message import Stream

from .connection import Word
from .queue import Call, Queue
from .scripts import REPORT

#: Reports in one script.
ITEMS = 200


def report_calls(reports: Sequence[Report], queue_of: Callable[[Stream], Queue]) -> list[Call]:
    by_stream: dict[Stream, list[Report]] = {}
    for report in reports:
        by_stream.setdefault(report.claim.source.stream, []).append(report)
    return [
        queue_of(stream).call(REPORT, *_words(several[start : start + ITEMS]))
        for stream, several in by_stream.items()
        for start in range(0, len(several), ITEMS)
    ]


def _words(reports: Sequence[Report]) -> list[Word]:
    words: list[Word] = []
    for report in reports:
        claim, token = report.claim, report.claim.token
        words += (claim.id, token.lane, token.entry, token.consumer, repr(report.fraction), report.text)
    return words
