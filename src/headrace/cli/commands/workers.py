"""`headrace workers`: list workers and the jobs that they run."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from rich.text import Text

from headrace.app import App
from headrace.cli.output.render import echo, json_list_option, meter, short, show, show_json
from headrace.cli.output.table import Column, FittedTable
from headrace.cli.target.store import on_store, with_target
from headrace.core.records.record import WorkerInfo, moment
from headrace.core.values.times import age_text, ago
from headrace.core.values.whole_numbers import counted

#: Running jobs that are listed; `--json` has all that the workers name.
SHOWN = 30


@click.command()
@json_list_option
@on_store
def workers(app: App, as_json: bool) -> None:
    """List the workers and the jobs that they run.

    Shows the load of each, how long it is up, and when it last asked for jobs.

    \b
    Examples:
      headrace workers shop:app
      headrace workers --url redis://localhost:6379/0 --json
    """
    found = sorted(app.sync.admin.workers(), key=lambda worker: worker.consumer)
    if as_json:
        show_json([worker_document(worker) for worker in found])
    elif not found:
        echo(summary(found))
    else:
        show(workers_table(found))
        if any(worker.running for worker in found):
            echo()
            show(_running(found))
            _tell_rest(found)


def worker_document(worker: WorkerInfo) -> dict[str, object]:
    """A worker as `--json` prints it."""
    return {
        "id": worker.consumer,
        "host": worker.host,
        "pid": worker.pid,
        "queues": list(worker.queues),
        "groups": list(worker.groups),
        "concurrency": worker.concurrency,
        "load": round(len(worker.running) / worker.concurrency, 4),
        "started_at": moment(worker.started_us),
        "polled_at": moment(worker.polled_us),
        "running": [
            {"id": job.id, "task": job.task, "since": moment(job.since_us)} for job in worker.running
        ],
    }


def summary(found: list[WorkerInfo]) -> str:
    """All workers in one line."""
    if not found:
        return with_target("no worker is running; start one with: headrace worker MODULE:APP")
    busy, slots = sum(len(each.running) for each in found), sum(each.concurrency for each in found)
    polls = [at for worker in found if (at := moment(worker.polled_us))]
    text = f"{counted(len(found), 'worker')}, {busy:,} of {slots:,} slots busy"
    return f"{text}, last poll {ago(max(polls))}" if polls else f"{text}, just started"


def workers_table(found: list[WorkerInfo]) -> FittedTable:
    """A line for each worker, with its load as a bar."""
    listing = FittedTable(
        Column("worker", keeps="end"),
        Column("load", spare=2),
        Column("slots", right=True),
        Column("up", right=True, spare=1),
        Column("last poll", right=True),
        Column("serves", keeps="start", spare=3),
    )
    for worker in found:
        load, polled = len(worker.running) / worker.concurrency, moment(worker.polled_us)
        silent = polled is None or worker.is_quiet(datetime.now(UTC))
        listing.add(
            worker.consumer,
            meter(load, 10, "green" if load < 1 else "yellow"),
            f"{len(worker.running)}/{worker.concurrency}",
            age_text(moment(worker.started_us)),
            Text(ago(polled) or "never", style="yellow" if silent else ""),
            ", ".join((*worker.queues, *worker.groups)),
        )
    return listing


def _running(found: list[WorkerInfo]) -> FittedTable:
    listing = FittedTable(
        Column("running", keeps="end"), Column("for", right=True), Column("id"), Column("worker", keeps="end")
    )
    jobs = [(job, worker) for worker in found for job in worker.running]
    for job, worker in sorted(jobs, key=lambda pair: pair[0].since_us)[:SHOWN]:
        listing.add(short(job.task), age_text(moment(job.since_us)), job.id, worker.consumer)
    return listing


def _tell_rest(found: list[WorkerInfo]) -> None:
    rest = sum(len(worker.running) for worker in found) - SHOWN
    if rest > 0:
        echo(f"… and {rest:,} more; --json lists them", err=True)
