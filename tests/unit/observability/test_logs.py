"""Signals as log lines: one line, one fact."""

from __future__ import annotations

import logging
import time

import pytest

from headrace import signals
from headrace.engine.emitter import Emitter
from headrace.observability.logs import OneLine, log_every_job, log_finished_jobs, log_signals
from tests.support.died import job_died

JOB = ("01abc", "send", "mails")

LINES = [
    (
        signals.JobRetrying(*JOB, attempt=2, delay=4.0, why="ValueError: no"),
        "WARNING",
        "send 01abc failed on attempt 2, again in 4 s: ValueError: no",
    ),
    (signals.JobRetrying(*JOB, attempt=1, delay=60.0, why="snoozed"), "INFO", "send 01abc snoozed for 60 s"),
    (
        job_died(*JOB, attempt=4, reason="exhausted", error_type="ValueError", error="no", seconds=0.25),
        "ERROR",
        "send 01abc is dead after 4 attempts, the last took 250 ms (exhausted): ValueError: no",
    ),
    (
        job_died(*JOB, attempt=1, reason="invalid", error_type="invalid", error="100 % wrong"),
        "ERROR",
        "send 01abc is dead after 1 attempt (invalid): 100 % wrong",
    ),
    (
        signals.JobRecovered(*JOB, crashes=1, worker="host:1"),
        "WARNING",
        "send 01abc recovered from host:1, which is gone (crash 1)",
    ),
    (signals.JobExpired(*JOB), "WARNING", "send 01abc expired before it could start"),
    (signals.JobCancelled(*JOB), "INFO", "send 01abc cancelled"),
    (signals.LeaseLost(*JOB, worker="host:1"), "WARNING", "send 01abc has lost its lease"),
    (
        signals.ThreadOverdue(*JOB, timeout=5.0),
        "WARNING",
        "send 01abc is past its timeout of 5 s; its thread keeps a slot until it ends",
    ),
    (
        signals.WorkerStarted("host:1", ("default", "mails"), 100, 15.0, "memory"),
        "INFO",
        "worker host:1 serves default, mails on memory, 100 at a time, lease 15 s",
    ),
    (
        signals.WorkerStarted("host:1", (), 100, 15.0, "memory"),
        "INFO",
        "worker host:1 relays outboxes to memory",
    ),
    (signals.WorkerStopping("host:1", 0, 25.0), "INFO", "stopping: nothing is running"),
    (signals.WorkerStopping("host:1", 3, 25.0), "INFO", "stopping: 3 running, they have 25 s to end"),
    (signals.WorkerStopped("host:1", 1234, 5), "INFO", "stopped after 1,234 jobs, 5 handed back"),
    (
        signals.LeaseChanged("mails", 15.0, 30.0),
        "WARNING",
        "the lease of mails is now 30 s for all, was 15 s",
    ),
    (
        signals.BackendError("settler", "away", 0.25),
        "WARNING",
        "the settler failed, tries again in 250 ms: away",
    ),
]

LINES_OF_EVERY_JOB = [
    (signals.JobStarted(*JOB, attempt=1, worker="w", waited=0.1), "DEBUG", "send 01abc started, attempt 1"),
    (signals.JobSucceeded(*JOB, attempt=1, worker="w", seconds=0.002), "DEBUG", "send 01abc done in 2 ms"),
    (
        signals.JobFailed(
            *JOB, attempt=1, worker="w", seconds=1, error_type="E", error="no", traceback="Traceback…"
        ),
        "DEBUG",
        "send 01abc raised",
    ),
]


@pytest.fixture
def emitter(caplog: pytest.LogCaptureFixture) -> Emitter:
    caplog.set_level(logging.DEBUG, logger="headrace")
    emitter = Emitter()
    log_signals(emitter.on)
    return emitter


@pytest.mark.parametrize(("signal", "level", "line"), LINES)
def test_a_signal_is_one_line(
    emitter: Emitter, caplog: pytest.LogCaptureFixture, signal: signals.Signal, level: str, line: str
) -> None:
    emitter.emit(signal)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("headrace", level)
    assert record.getMessage().startswith(line)


FORGED = "no\n2030-01-01 ERROR headrace: forged\r\x1b[2J\u202edegrof\u2028\u2066\x85\x1d"


@pytest.mark.parametrize(
    "signal",
    [
        job_died(*JOB, 1, "exhausted", "E", FORGED),
        job_died("01abc", FORGED, "mails", 1, "exhausted", "E", ""),
        signals.JobRecovered(*JOB, 1, FORGED),
        signals.BackendError("settler", FORGED, 0.1),
        signals.LeaseChanged(FORGED, 1, 2),
        signals.JobFailed(*JOB, attempt=1, worker="w", seconds=1, error_type="E", error="", traceback=FORGED),
        job_died(*JOB, 1, "exhausted", "E", FORGED, traceback=FORGED),
    ],
    ids=lambda signal: type(signal).__name__,
)
def test_nothing_in_a_signal_looks_like_a_line_of_its_own(
    emitter: Emitter, caplog: pytest.LogCaptureFixture, signal: signals.Signal
) -> None:
    log_every_job(emitter.on)
    emitter.emit(signal)
    (record,) = caplog.records
    text = logging.Formatter().format(record)
    _, *more = text.split("\n")
    assert bool(more) is bool(getattr(signal, "traceback", ""))
    assert all(line.startswith("    ") for line in more)
    assert not set("\r\x1b\u202e\u2028\u2066\x85\x1d") & set(text)


def test_at_a_terminal_a_finished_job_has_a_line(emitter: Emitter, caplog: pytest.LogCaptureFixture) -> None:
    log_finished_jobs(emitter.on)
    emitter.emit(signals.JobSucceeded(*JOB, attempt=1, worker="w", seconds=0.25))
    emitter.emit(signals.EventHandled("01abc", "Placed", "orders", "billing", 1, "w", seconds=0.25))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "send 01abc done in 250 ms"),
        ("INFO", "orders 01abc for billing handled in 250 ms"),
    ]


def test_nor_does_what_a_server_says_or_an_exception(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("headrace")
    logger.warning("%s is away: %s", "the store", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logger.exception("a listener failed")
    said, raised = (logging.Formatter().format(record) for record in caplog.records)
    assert "\n" not in said
    assert all(line.startswith("    ") for line in raised.splitlines()[1:])


def test_a_line_that_cannot_be_written_is_left_to_its_handler() -> None:
    record = logging.LogRecord("headrace", logging.WARNING, "", 1, "%d", ("text",), None)
    assert OneLine().filter(record)


DEATHS = [
    job_died(*JOB, 1, "exhausted", "ValueError", "no", "Traceback:\n" + "x" * 100_000 + "\nno\n"),
    signals.EventDied(*JOB, "group", 1, "exhausted", "ValueError", "no", "Traceback:\n" + "x" * 100_000),
]


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: type(death).__name__)
def test_a_death_brings_the_end_of_its_traceback(
    emitter: Emitter, caplog: pytest.LogCaptureFixture, death: signals.Signal
) -> None:
    emitter.emit(death)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "\n" not in record.getMessage()
    first, *more = logging.Formatter().format(record).splitlines()
    assert first.endswith("(exhausted): ValueError: no")
    assert 0 < sum(map(len, more)) < 9_000


def test_a_store_that_is_away_is_a_line_a_second(
    emitter: Emitter, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(30):
        emitter.emit(signals.BackendError("settler", "away", 0.1))
        now += 0.1
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert lines[0].endswith("away")
    assert lines[1].endswith("away (and 9 similar errors before)")


@pytest.mark.parametrize(("signal", "level", "line"), LINES_OF_EVERY_JOB)
def test_single_jobs_are_logged_only_when_asked_for(
    emitter: Emitter, caplog: pytest.LogCaptureFixture, signal: signals.Signal, level: str, line: str
) -> None:
    emitter.emit(signal)
    assert caplog.records == []
    log_every_job(emitter.on)
    emitter.emit(signal)
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (level, line)
