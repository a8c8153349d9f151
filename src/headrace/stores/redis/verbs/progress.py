"""Turns reports of progress and log lines into calls of the script that stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from headrace.core.messages.claim import Report
from headrace.core.messages.job_log import encode_log
from headrace.core.messages.message import Stream
from headrace.stores.redis.client.connection import Word
from headrace.stores.redis.entries import EntryToken
from headrace.stores.redis.scripts import REPORT_PROGRESS
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

#: Reports in one script, and bytes of their logs.
ITEMS, BYTES = 200, 1 << 20


def report_calls(reports: Sequence[Report], queue_of: Callable[[Stream], StreamScripts]) -> list[ScriptCall]:
    by_stream: dict[Stream, list[Report]] = {}
    for report in reports:
        by_stream.setdefault(report.claim.stream, []).append(report)
    return [
        queue_of(stream).call(REPORT_PROGRESS, *words)
        for stream, several in by_stream.items()
        for words in _chunks(several)
    ]


def _chunks(reports: Sequence[Report]) -> Iterator[list[Word]]:
    words: list[Word] = []
    count = size = 0
    for report in reports:
        log = encode_log(report.log)
        if count == ITEMS or (count and size + len(log) > BYTES):
            yield words
            words, count, size = [], 0, 0
        words += _words(report, log)
        count, size = count + 1, size + len(log)
    yield words


def _words(report: Report, log: bytes) -> tuple[Word, ...]:
    claim, token = report.claim, cast(EntryToken, report.claim.token)
    fraction = "-" if report.fraction is None else repr(report.fraction)
    return claim.id, token.lane, token.entry, token.consumer, fraction, report.text, log
