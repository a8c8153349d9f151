"""What a run said of itself, as the server keeps it."""

from __future__ import annotations

import pytest

from headrace.core.messages.job_log import NO_LOG, JobLog, LogLine, encode_log
from headrace.core.records.record import Progress
from headrace.stores.redis.entries import read_report


def test_progress_and_log_are_read_apart() -> None:
    log = JobLog((LogLine(1, 5, "INFO", "half of it"),))
    text = "halb fertig, größtenteils"
    said = b"7 0.5 %d %b%b" % (len(text.encode()), text.encode(), encode_log(log))
    assert read_report(said) == (Progress(0.5, text, 7), log)
    assert read_report(b"7 - 0 " + encode_log(log)) == (None, log)


@pytest.mark.parametrize(
    "said", [None, b"", b"7 0.5 reading", b"7 0.5 half way", b"7 - x y", b"7 0.5 1 \xff"]
)
def test_what_another_version_wrote_keeps_no_message_from_being_recovered(said: bytes | None) -> None:
    assert read_report(said) == (None, NO_LOG)
