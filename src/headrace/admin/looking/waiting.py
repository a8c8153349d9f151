"""Says in words what a queued job waits for."""

from __future__ import annotations

from headrace.core.limits.paused_tasks import PAUSED
from headrace.core.records.job_info import JobInfo
from headrace.core.records.record import ORDER_KEY


def waiting_text(job: JobInfo) -> str:
    """Empty: the job waits for a free slot of a worker, or it does not wait."""
    if not job.waiting_for:
        return ""
    if job.waiting_for == ORDER_KEY:
        return f"an earlier {'event with its key' if job.topic else 'job with its order key'}"
    if job.waiting_for.startswith(PAUSED):
        return "its task, which is paused"
    return f"the limit {job.waiting_for}"


def short_waiting_text(job: JobInfo) -> str:
    """Says in a few words what a queued job waits for, for a narrow column. Empty: it does not wait."""
    if job.waiting_for == ORDER_KEY:
        return "waits in order"
    if job.waiting_for.startswith(PAUSED):
        return "task is paused"
    return f"waits: {job.waiting_for}" if job.waiting_for else ""


def limit_of(job: JobInfo) -> str:
    """The limit that a job waits for; empty: it waits for none."""
    waiting_for = job.waiting_for
    return "" if waiting_for == ORDER_KEY or waiting_for.startswith(PAUSED) else waiting_for
