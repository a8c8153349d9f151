"""The timeline of a job: what happened when, and each run to scale."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace import JobStatus
from headrace.core.records.job_info import JobInfo, RunInfo
from headrace.dashboard.pages.timeline import timeline

BEGUN = datetime(2026, 3, 1, 10, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


def test_every_run_of_a_job_has_a_bar_in_the_colour_of_its_end() -> None:
    runs = (
        RunInfo(1, "web-1", at(0), at(20), "ValueError: no"),
        RunInfo(2, "web-1", at(50), at(60)),
    )
    job = JobInfo(
        *("id", "mails", "send", JobStatus.SUCCEEDED),
        enqueued_at=BEGUN,
        started_at=at(50),
        ended_at=at(100),
        runs=runs,
    )
    bars = [(bar.start, bar.width, bar.tone) for bar in timeline(job).runs]
    assert bars == [(0, 20, "bad"), (50, 10, "good")]


def test_the_bar_of_a_running_job_ends_now_and_a_short_one_is_still_seen() -> None:
    runs = (RunInfo(1, "web-1", at(0), at(0), "killed"), RunInfo(2, "web-1", at(100)))
    job = JobInfo(*("id", "mails", "send", JobStatus.RUNNING), enqueued_at=BEGUN, runs=runs)
    short, running = timeline(job, now=at(200)).runs
    assert short.width > 0
    assert (running.start, running.width) == (50, 50)


def test_no_bar_leaves_the_timeline() -> None:
    job = JobInfo(
        *("id", "mails", "send", JobStatus.DEAD),
        enqueued_at=BEGUN,
        ended_at=at(100),
        runs=(RunInfo(1, "web-1", at(100), at(100), "ValueError: no"),),
    )
    [bar] = timeline(job).runs
    assert bar.start + bar.width == 100
